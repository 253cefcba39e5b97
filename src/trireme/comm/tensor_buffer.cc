#include "trireme/comm/tensor_buffer.h"

#include <string>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

constexpr std::pair<DType, at::ScalarType> kTypes[] = {
    {DType::kF64, at::kDouble}, {DType::kF32, at::kFloat}, {DType::kBF16, at::kBFloat16},
    {DType::kF16, at::kHalf},   {DType::kI64, at::kLong},  {DType::kI32, at::kInt},
    {DType::kI16, at::kShort},  {DType::kU8, at::kByte},
};

}  // namespace

at::ScalarType scalar_type(DType type) {
  for (const auto& [ours, theirs] : kTypes)
    if (ours == type) return theirs;
  fail(ErrorKind::kInternal, "LibTorch has no tensors of {}", name(type));
}

DType dtype_of(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes)
    if (theirs == type) return ours;
  fail(ErrorKind::kInternal, "tensors of {} are neither sent nor stored", c10::toString(type));
}

Buffer buffer(const at::Tensor& tensor) {
  TRIREME_CHECK(tensor.is_contiguous(), "communication needs a contiguous tensor of {} elements",
                tensor.numel());
  return {tensor.data_ptr(), tensor.numel(), dtype_of(tensor.scalar_type())};
}

}  // namespace trireme::comm
