// Tensor and sequence parallelism as ops see it: blocks are written once for any number of ranks.
#pragma once

#include <cstdint>

#include "trireme/comm/group.h"

namespace trireme::ops {

// The ranks that share the weights of a layer (Shoeybi et al. 2019). One rank, or none: ops do what they do
// without it.
//
// Activations are [samples, tokens, d] and the same on every rank, except inside parallel regions. With `sequence`
// (Korthikanti et al. 2022) activations between the regions are shared by rows of the flattened [samples * tokens, d].
// Rank r has [1, per, d], rows r * per .. (r + 1) * per - 1, with per the quotient of rows and ranks, rounded up. Rows
// after the last are padding: zero as they leave a region, dropped as they enter one, so that they have no gradient.
struct TensorParallel {
  comm::Group* group = nullptr;
  bool sequence = false;
  // Tokens of a sample, at least size(): gives gathered rows their shape. 0: shared rows are those of one sample
  // without padding.
  std::int64_t tokens = 0;

  int size() const { return group != nullptr ? group->size() : 1; }
  int rank() const { return group != nullptr ? group->rank() : 0; }
  bool shares_rows() const { return sequence && size() > 1; }
};

}  // namespace trireme::ops
