// Part of a batch that a context-parallel rank trains on.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trireme::loaders {

// Tokens of [samples, tokens, ..] that plan/mesh/zigzag.h gives to `rank` of `ranks`. Throws as zigzag_tokens.
std::vector<at::Tensor> cut_tokens(std::vector<at::Tensor> batch, int rank, int ranks);

}  // namespace trireme::loaders
