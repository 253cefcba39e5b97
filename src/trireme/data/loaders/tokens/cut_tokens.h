// How context-parallel ranks share the tokens of a decoder's micro-batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/config/job.h"
#include "trireme/plan/mesh/token_layout.h"

namespace trireme::loaders {

// Balanced where documents share samples: by the scores of all samples at each position. Else the zigzag.
mesh::BalancedLayout token_layout(const config::Job& job, const std::vector<at::Tensor>& batch);

// The inputs of `rank`: its tokens of each [samples, tokens, ..], and after them the chunks of balanced layouts: int64
// [ranks, chunks], the position of each chunk's first token.
std::vector<at::Tensor> cut_tokens(const config::Job& job, const std::vector<at::Tensor>& batch,
                                   const mesh::TokenLayout& layout, int rank);

}  // namespace trireme::loaders
