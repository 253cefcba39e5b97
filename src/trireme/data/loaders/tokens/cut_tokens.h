// Assignment of the tokens of a decoder's micro-batch to context-parallel ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/config/job.h"
#include "trireme/plan/mesh/token_layout.h"

namespace trireme::loaders {

// Layout of a micro-batch: balanced by its documents where they share samples, else the same for all (model/token_sharing.h).
mesh::BalancedLayout token_layout(const config::Job& job, const std::vector<at::Tensor>& batch);

// Inputs of `rank`: its tokens of each [samples, tokens, ..], then for balanced layouts the chunks, int64
// [ranks, chunks]: the position of each chunk's first token.
std::vector<at::Tensor> cut_tokens(const config::Job& job, const std::vector<at::Tensor>& batch,
                                   const mesh::TokenLayout& layout, int rank);

}  // namespace trireme::loaders
