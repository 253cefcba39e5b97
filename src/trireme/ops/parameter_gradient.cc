#include "trireme/ops/parameter_gradient.h"

#include <ATen/ops/zeros.h>

#include "trireme/base/error.h"
#include "trireme/ops/aten/rows.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/matmul.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/matrix_product.h"

namespace trireme::ops {
namespace {

// In the type of sums.
at::Tensor sum_of_rows(const at::Tensor& dy) {
  if (!has_kernels(dy)) return aten::sum_rows(dy);
  const std::int64_t rows = dy.size(0);
  const std::int64_t width = dy.size(1);
  const std::int64_t chunks = (rows + kSumRows - 1) / kSumRows;
  const at::Tensor sums = at::zeros({chunks, width}, dy.options().dtype(wide(dy.scalar_type())));
  TRIREME_DISPATCH(dy.scalar_type(), "bias_gradient", [&] {
    using A = kernels::Wide<scalar_t>;
    for_rows(chunks, kSumRows * width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk)
        kernels::row_kernels<scalar_t>().add_rows(elements<scalar_t>(dy) + chunk * kSumRows * width,
                                                  std::min(rows - chunk * kSumRows, kSumRows),
                                                  width, width, elements<A>(sums) + chunk * width);
    });
    kernels::row_kernels<A>().add_rows(elements<A>(sums) + width, chunks - 1, width, width,
                                       elements<A>(sums));
  });
  return sums[0];
}

}  // namespace

void add_gradient(const at::Tensor& param, const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  TRIREME_CHECK(param.is_leaf(), "a deferred gradient is a parameter's");
  at::Tensor& sum = param.mutable_grad();
  if (!sum.defined()) {
    sum = gradient;
    return;
  }
  sum.add_(gradient);
}

at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           const WeightGradientsPtr& gradients) {
  if (!weight.requires_grad()) return {};
  if (deferring(gradients)) {
    gradients->push([dy, x = x.detach(), weight](const WeightGradientsPtr& own) {
      add_gradient(weight, weight_gradient(dy, x, weight, own));
    });
    return {};
  }
  const GradientTarget target = gradient_target(weight, gradients);
  if (!target.defined()) return product(dy.t(), x);
  add_transposed_product(dy, x, target.sum, target.into);
  return {};
}

void add_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum) {
  // Nothing to widen is BLAS's own case, and faster there.
  if (!has_kernels(a) || (a.scalar_type() == sum.scalar_type() && a.scalar_type() != at::kHalf))
    return aten::add_product(a, b, sum);
  kernels::matmul(matrix(a), matrix(b), matrix(sum), kernels::Into::kAdd);
}

void add_transposed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
                            kernels::Into into) {
  if (has_kernels(a)) return kernels::matmul(matrix(a).transposed(), matrix(b), matrix(sum), into);
  if (into == kernels::Into::kReplace) sum.zero_();
  aten::add_product(a.t(), b, sum);
}

at::Tensor deliver_gradient(const at::Tensor& param, const at::Tensor& sum,
                            const WeightGradientsPtr& gradients) {
  if (!param.requires_grad()) return {};
  if (deferring(gradients)) {
    gradients->push([param, sum = sum.clone()](const WeightGradientsPtr& own) {
      add_gradient(param, deliver_gradient(param, sum, own));
    });
    return {};
  }
  const GradientTarget target = gradient_target(param, gradients);
  if (!target.defined()) return sum.to(param.scalar_type());
  target.add(sum);
  return {};
}

at::Tensor bias_gradient(const at::Tensor& dy, const at::Tensor& bias,
                         const WeightGradientsPtr& gradients, BiasKeeps keeps) {
  if (!bias.requires_grad()) return {};
  if (keeps == BiasKeeps::kSum || !deferring(gradients))
    return deliver_gradient(bias, sum_of_rows(dy), gradients);
  gradients->push([dy, bias](const WeightGradientsPtr& own) {
    add_gradient(bias, bias_gradient(dy, bias, own));
  });
  return {};
}

}  // namespace trireme::ops
