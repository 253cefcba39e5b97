// Token embedding.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::ops {

// Rows of `table`, [vocab, d], for tokens, int64 of any shape: [.., d]. Gradients of a row are added in
// token order in fp32 (fp64 for fp64) and rounded once. Throws Error{kData} for a token outside [0, vocab).
at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table);

}  // namespace trireme::ops
