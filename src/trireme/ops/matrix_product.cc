#include "trireme/ops/matrix_product.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include <vector>

#include "trireme/ops/adapters/stored_weight.h"
#include "trireme/ops/flop_count.h"

namespace trireme::ops {
namespace {

// LibTorch multiplies fp32 on the CPU with OpenBLAS, which uses AVX2 alone on CPUs that it does not know or where
// OPENBLAS_CORETYPE says so: half the rate of AVX-512. In 16 bits LibTorch copies a bias to every row of the result to
// add to it there, and rounds at every sum if the CPU has no products of the type. In fp64 and on other devices it is
// best.
bool multiplied_here(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() != at::kDouble; }

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
  if (is_stored(b)) return product(a, stored_values(b, a.scalar_type()));
  if (!multiplied_here(a)) return counted(at::mm(a, b), a.size(1));
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  kernels::matmul(matrix(a), matrix(b), matrix(result));
  return counted(result, a.size(1));
}

void accumulate_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum) {
  if (is_stored(b)) return accumulate_product(a, stored_values(b, a.scalar_type()), sum);
  counted(sum, a.size(1));
  if (multiplied_here(a))
    kernels::matmul(matrix(a), matrix(b), matrix(sum), kernels::Into::kAdd);
  else
    sum.addmm_(a, b);
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (is_stored(weight)) return affine(x, stored_values(weight, x.scalar_type()), bias);
  if (!multiplied_here(x)) return counted(at::linear(x, weight, bias), weight.size(1));
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const at::Tensor result = at::empty({rows.size(0), weight.size(0)}, x.options());
  kernels::matmul(matrix(rows), matrix(weight.t()), matrix(result), kernels::Into::kReplace,
                  bias.defined() ? bias.data_ptr() : nullptr);
  return counted(result, weight.size(1)).view(shape);
}

}  // namespace trireme::ops
