#include "trireme/ops/parameter_gradient.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/matmul.h"
#include "trireme/ops/kernels/cpu/rows.h"

namespace trireme::ops {
namespace {

constexpr std::int64_t kChunk = 256;  // rows added together before chunks are added in order

kernels::Matrix matrix(const at::Tensor& tensor) {
  return {.data = tensor.data_ptr(),
          .type = tensor.scalar_type(),
          .rows = tensor.size(0),
          .columns = tensor.size(1),
          .row_stride = tensor.size(1)};
}

}  // namespace

at::Tensor gradient_memory(const at::Tensor& param) {
  if (!param.is_leaf() || !param.requires_grad()) return {};
  const at::Tensor& grad = param.grad();
  const bool usable = grad.defined() && grad.scalar_type() == wide(param.scalar_type()) &&
                      grad.is_contiguous() && grad.device().is_cpu();
  return usable ? grad : at::Tensor();
}

at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor memory = gradient_memory(weight);
  if (!memory.defined()) return at::mm(dy.t(), x);
  kernels::matmul(matrix(dy).transposed(), matrix(x), matrix(memory), kernels::Into::kAdd);
  return {};
}

at::Tensor bias_gradient(const at::Tensor& dy, const at::Tensor& bias) {
  const std::int64_t rows = dy.size(0);
  const std::int64_t width = dy.size(1);
  const std::int64_t chunks = (rows + kChunk - 1) / kChunk;
  at::Tensor sums = at::empty({chunks, width}, dy.options().dtype(wide(dy.scalar_type())));
  TRIREME_DISPATCH(dy.scalar_type(), "bias_gradient", [&] {
    using A = kernels::Wide<scalar_t>;
    for_rows(chunks, kChunk * width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk)
        kernels::sum_rows(elements<scalar_t>(dy) + chunk * kChunk * width,
                          std::min(rows - chunk * kChunk, kChunk), width,
                          elements<A>(sums) + chunk * width);
    });
    kernels::add_rows(elements<A>(sums), chunks, width);
  });
  const at::Tensor sum = sums.select(0, 0);
  at::Tensor memory = gradient_memory(bias);
  if (!memory.defined()) return sum.to(bias.scalar_type());
  memory.add_(sum);
  return {};
}

}  // namespace trireme::ops
