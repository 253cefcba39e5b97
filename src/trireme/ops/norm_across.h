// An RMS norm of features that tensor-parallel ranks share.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/norm.h"
#include "trireme/ops/tensor_parallel.h"

namespace trireme::ops {

// Rows of `width` features over all ranks, of which this rank has some. The first `shared` of them an earlier rank has as
// well, as two ranks may read one key-value head.
struct Features {
  std::int64_t width = 0;
  std::int64_t shared = 0;
};

// rms_norm of such rows: x, [.., own], and the gains [own]. Two exchanges of a number a row in the type of sums: forward
// adds squares, backward what the scale's gradient is made of. Gradients of features that ranks share add up to the whole
// one, as those that come in do. On one rank it is rms_norm.
at::Tensor rms_norm_across(const at::Tensor& x, const at::Tensor& gain, const Features& features,
                           double eps, const TensorParallel& tp,
                           const WeightGradientsPtr& gradients = {});

}  // namespace trireme::ops
