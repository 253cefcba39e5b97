#include "trireme/ops/matrix_product.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include <vector>

namespace trireme::ops {
namespace {

// LibTorch's own products of what the CPU does not multiply are slow and round every sum, if there are any.
bool needs_widening(const at::Tensor& x) {
  return x.is_cpu() && kernels::needs_widening(x.scalar_type());
}

}  // namespace

kernels::Matrix matrix(const at::Tensor& tensor) {
  return {.data = tensor.data_ptr(),
          .type = tensor.scalar_type(),
          .rows = tensor.size(0),
          .columns = tensor.size(1),
          .row_stride = tensor.stride(0),
          .column_stride = tensor.stride(1)};
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (!needs_widening(a)) return at::mm(a, b);
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  kernels::matmul(matrix(a), matrix(b), matrix(result));
  return result;
}

void accumulate_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum) {
  if (needs_widening(a))
    kernels::matmul(matrix(a), matrix(b), matrix(sum), kernels::Into::kAdd);
  else
    sum.addmm_(a, b);
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!needs_widening(x)) return at::linear(x, weight, bias);
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const at::Tensor result = product(rows, weight.t());
  if (bias.defined()) result.add_(bias);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return result.view(shape);
}

}  // namespace trireme::ops
