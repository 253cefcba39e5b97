// From LibTorch's tensors to the buffers of Group; the only header of comm's interface that knows both.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/base/dtype.h"
#include "trireme/comm/group.h"

namespace trireme::comm {

// Element types by their two names; each throws Error{kInternal} where the other side has none.
at::ScalarType scalar_type(DType type);
DType dtype_of(at::ScalarType type);

// All elements of a contiguous tensor, in memory order. The tensor must outlive the ticket's wait().
// Writes through the buffer bypass autograd's version counter. Throws Error{kInternal} if the tensor
// is not contiguous.
Buffer buffer(const at::Tensor& tensor);

}  // namespace trireme::comm
