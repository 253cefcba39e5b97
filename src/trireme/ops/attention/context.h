// Context parallelism: ranks that share the tokens of each sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/comm/world.h"
#include "trireme/ops/kernels/score_tiles.h"
#include "trireme/plan/mesh/context_method.h"
#include "trireme/plan/mesh/token_layout.h"

namespace trireme::ops {

using mesh::ContextMethod;
std::string_view name(ContextMethod method);  // "ring", "all_gather", "ulysses", "hierarchical"

// The ranks of a sequence as attention sees them. The default is one rank. Groups outlive backward.
struct ContextParallel {
  comm::Group* group = nullptr;  // all of them; null: one rank
  ContextMethod method = ContextMethod::kRing;
  comm::Group* lane =
      nullptr;  // the ring's ranks once more, so that a rank sends and receives at once; may be null
  comm::Group* inner = nullptr;  // hierarchical: neighbours, equally many everywhere
  comm::Group* outer = nullptr;  // hierarchical: the ranks with this rank's index in other groups
                                 // of neighbours
  // Neighbours that exchange heads share chunks, as those of mesh::balanced do. No tokens: the zigzag of the tokens that
  // there are.
  mesh::TokenLayout layout{};

  int size() const { return group != nullptr ? group->size() : 1; }
  int rank() const { return group != nullptr ? group->rank() : 0; }
  // The groups that exchange heads for tokens before attention, and that pass keys round; null: no such group.
  comm::Group* exchange() const;
  comm::Group* ring() const;
};

// The groups of a method over `ranks` (world ranks). Goes before its world.
class ContextGroups {
 public:
  // Collective over `ranks`. inner: neighbours that exchange heads, kHierarchical only. Throws Error{kUsage} where it
  // does not divide the ranks.
  ContextGroups(comm::World& world, const std::vector<int>& ranks, ContextMethod method,
                int inner = 0);
  const ContextParallel& parallel() const { return parallel_; }

 private:
  std::unique_ptr<comm::Group> group_, lane_, inner_, outer_;
  ContextParallel parallel_;
};

// A segment for each of the rank's ranges.
Segments token_segments(const mesh::TokenLayout& layout, int rank);

// Cuts dim `dim` of a whole x for a rank, and puts all ranks' parts together.
at::Tensor shard_tokens(const at::Tensor& x, std::int64_t dim, const mesh::TokenLayout& layout,
                        int rank);
at::Tensor unshard_tokens(const std::vector<at::Tensor>& shards, std::int64_t dim,
                          const mesh::TokenLayout& layout);

// Position in the sequence of each of the rank's tokens, int64.
at::Tensor token_positions(const mesh::TokenLayout& layout, int rank);

}  // namespace trireme::ops
