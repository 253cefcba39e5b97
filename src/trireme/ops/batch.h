// Rows that data-parallel ranks hold one part each of, brought together with gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"

namespace trireme::ops {

// The rows of all ranks in rank order, [ranks * rows, d], of `own`, [rows, d], as many on every rank. The gradient of a
// rank's rows is the sum over all ranks' losses: the sum of the losses over ranks has the right gradient. Forward and
// backward are collective: an all-gather and a reduce-scatter, in own's type. Null or a group of one: `own`.
at::Tensor gather_batch(const at::Tensor& own, comm::Group* group);

}  // namespace trireme::ops
