// Puts together what the ranks of a run have of one tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/plan/mesh/token_layout.h"
#include "trireme/train/recording/recording_contents.h"

namespace trireme::train {

// Value that a node wrote on one rank, for one micro-batch of the global batch.
struct Observed {
  int rank = 0;
  std::int64_t micro_batch = 0;
  std::vector<std::int64_t> sizes{};
  DType type = DType::kF64;  // what was written in
  at::Tensor values{};       // fp64, flat
};

// Parts, by rank, in their places. Throws Error{kInternal} where an element has no part. No parts: nothing is recorded.
void merge(std::vector<Part> parts, RecordedTensor& whole);

// `seen`, by rank, of the activation at place `tensor` of a step: fills in shape and rows, and identifies copies that
// have other rows. `layouts` of decoders, by micro-batch, say how cp ranks share its tokens. Throws Error{kInternal} if a
// micro-batch is missing.
void merge_activation(std::vector<Observed> seen, const Contents& contents,
                      std::span<const mesh::TokenLayout> layouts, std::size_t tensor,
                      RecordedTensor& whole);

}  // namespace trireme::train
