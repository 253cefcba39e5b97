// Past of a sequence that is read in parts, as in generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::exec {

// State of one node: the rows of the sequence that it has read, and its data for the rows that follow.
struct Past {
  std::int64_t rows = 0;
  std::vector<at::Tensor> kept{};  // in an order of the block's own; empty before the first row
  std::vector<at::Tensor> constants{};  // what the block computes of its parameters once a sequence
};

}  // namespace trireme::exec
