// From LibTorch's tensors to the buffers of Group; the only header of comm's interface that knows both.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/base/dtype.h"
#include "trireme/base/error.h"
#include "trireme/comm/group.h"

namespace trireme::comm {

// The DType of a scalar type; throws Error{kInternal} where there is none.
inline DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return DType::kF64;
    case at::kFloat: return DType::kF32;
    case at::kBFloat16: return DType::kBF16;
    case at::kHalf: return DType::kF16;
    case at::kLong: return DType::kI64;
    case at::kInt: return DType::kI32;
    case at::kShort: return DType::kI16;
    case at::kByte: return DType::kU8;
    default: fail(ErrorKind::kInternal, "no communication of {} tensors", c10::toString(type));
  }
}

// All elements of a contiguous tensor, in memory order. The tensor must outlive the ticket's wait().
// Writes through the buffer bypass autograd's version counter. Throws Error{kInternal} if the tensor
// is not contiguous.
inline Buffer buffer(const at::Tensor& tensor) {
  TRIREME_CHECK(tensor.is_contiguous(), "communication needs a contiguous tensor of {} elements",
                tensor.numel());
  return {tensor.data_ptr(), tensor.numel(), dtype_of(tensor.scalar_type())};
}

}  // namespace trireme::comm
