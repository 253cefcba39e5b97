// Random batches, for runs whose learning does not matter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::loaders {

// {tokens, targets} as TokenLoader::batch gives them, of even chance below `vocab`: each sample a function of its
// number. With documents also positions; a document begins at every 16th token or so.
std::vector<at::Tensor> random_tokens(std::int64_t first, std::int64_t count, std::int64_t seq_len,
                                      std::int64_t vocab, bool documents = false);

// Adds the inputs of source preferences: each sample is one comparison of two answers of equal length or, with `rewards`,
// two answers with rewards.
void add_answers(std::vector<at::Tensor>& batch, bool rewards);

}  // namespace trireme::loaders
