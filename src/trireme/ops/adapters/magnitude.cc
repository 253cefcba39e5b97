#include "trireme/ops/adapters/magnitude.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/aten/rows.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/matrix_product.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Calls body(first, count) for rows [first, first + count), in an order that no number of threads changes.
template <typename Body>
void by_chunks(std::int64_t rows, const Body& body) {
  for (std::int64_t first = 0; first < rows; first += kSumRows)
    body(first, std::min(rows - first, kSumRows));
}

// y = x * factors, for rows, in the type of factors, rounded to y's.
void multiply(const at::Tensor& x, const at::Tensor& factors, const at::Tensor& bias,
              const at::Tensor& y) {
  const bool narrow = y.scalar_type() != factors.scalar_type();
  at::Tensor product = narrow ? x * factors : y;
  if (!narrow) at::mul_out(product, x, factors);
  if (bias.defined()) product.add_(bias);
  if (narrow) y.copy_(product);
}

// sum += the sum of x's rows, both in the type of sums.
void add_rows(const at::Tensor& x, const at::Tensor& sum) {
  if (!has_kernels(x)) {
    sum.add_(aten::sum_rows(x));
    return;
  }
  TRIREME_DISPATCH(x.scalar_type(), "magnitude", [&] {
    kernels::row_kernels<scalar_t>().add_rows(elements<scalar_t>(x), x.size(0), x.size(1),
                                              x.size(1), elements<kernels::Wide<scalar_t>>(sum));
  });
}

at::Tensor result_of(const at::Tensor& x, const Magnitude& magnitude) {
  const at::Tensor rows = as_rows(x), y = at::empty_like(rows);
  const at::Tensor factors = widened(magnitude.values) / magnitude.norms;
  const std::int64_t biased = magnitude.rows < 0 ? rows.size(0) : magnitude.rows;
  const auto part = [&](std::int64_t begin, std::int64_t end, const at::Tensor& bias) {
    by_chunks(end - begin, [&](std::int64_t first, std::int64_t count) {
      multiply(rows.narrow(0, begin + first, count), factors, bias,
               y.narrow(0, begin + first, count));
    });
  };
  part(0, biased, magnitude.bias);
  part(biased, rows.size(0), {});
  return y.view(x.sizes());
}

// x, values and perhaps a bias.
struct Scaled : torch::autograd::Function<Scaled> {
  static at::Tensor forward(AutogradContext* context, at::TensorList in, const Magnitude& magnitude,
                            const WeightGradientsPtr& gradients, const Source& source) {
    context->save_for_backward(
        {kept(in[0], source), in[1], magnitude.norms, in.size() > 2 ? in[2] : at::Tensor()});
    save(context, "x", source);
    save(context, gradients);
    return result_of(in[0], magnitude);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor x = as_rows(restored(context, "x", saved[0]));
    const at::Tensor &values = saved[1], &norms = saved[2], &bias = saved[3];
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const at::Tensor dy = as_rows(grads[0]).contiguous(), dx = at::empty_like(dy);
    const at::Tensor factors = widened(values) / norms, sum = at::zeros_like(norms);
    by_chunks(dy.size(0), [&](std::int64_t first, std::int64_t count) {
      const at::Tensor some = dy.narrow(0, first, count), read = x.narrow(0, first, count);
      at::Tensor product = widened(some);
      product = product.is_same(some) ? product * read : product.mul_(read);
      add_rows(product, sum);
      product.reset();
      multiply(some, factors, {}, dx.narrow(0, first, count));
    });
    variable_list result = {dx.view(grads[0].sizes()),
                            deliver_gradient(values, sum.div_(norms), gradients)};
    if (bias.defined()) result.push_back(bias_gradient(dy, bias, gradients, BiasKeeps::kSum));
    result.resize(result.size() + 3);
    return result;
  }
};

}  // namespace

at::Tensor row_norms(const at::Tensor& weight, const Adapter& adapter, const TensorParallel& tp) {
  const at::NoGradGuard constant;
  const at::Tensor down = widened(adapter.down);
  at::Tensor norms = at::empty({weight.size(0)}, down.options());
  by_chunks(weight.size(0), [&](std::int64_t first, std::int64_t count) {
    const at::Tensor up = widened(adapter.up.narrow(0, first, count));
    at::Tensor rows = product(up, down).mul_(adapter.scale);
    norms.narrow(0, first, count).copy_(rows.add_(weight.narrow(0, first, count)).square_().sum(1));
  });
  if (tp.size() > 1) tp.group->all_reduce(comm::buffer(norms)).wait();
  constexpr double kLeast = std::numeric_limits<float>::min();  // of a row of zeros
  return norms.sqrt_().clamp_min_(kLeast);
}

Operand scaled(const Operand& x, const Magnitude& magnitude, const WeightGradientsPtr& gradients,
               Keep result) {
  variable_list in = {x.value.contiguous(), magnitude.values};
  if (magnitude.bias.defined()) in.push_back(magnitude.bias);
  at::Tensor y = Scaled::apply(at::TensorList(in), magnitude, gradients, x.source);
  if (result == Keep::kYes) return y;
  auto again = std::make_shared<Recomputed>([read = x.reader(), magnitude] {
    return std::vector<at::Tensor>{result_of(read(), magnitude)};
  });
  return {std::move(y), Source{.recomputed = std::move(again)}};
}

}  // namespace trireme::ops
