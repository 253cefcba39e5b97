// Token embedding.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/tensor_parallel.h"

namespace trireme::ops {

// Rows of `table`, [vocab, d], for tokens, int64 of any shape: [.., d]. Gradients of a row are added in
// token order in fp32 (fp64 for fp64) and rounded once. Throws Error{kData} for a token outside [0, vocab).
//
// On several ranks each has rows first_row .. of the table, the last rank the last; uneven shares may be.
// All pass the same tokens. The result is as between parallel regions: an all-reduce forward, or a
// reduce-scatter into shared rows and an all-gather backward.
at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table, std::int64_t first_row = 0,
                     const TensorParallel& tp = {});

}  // namespace trireme::ops
