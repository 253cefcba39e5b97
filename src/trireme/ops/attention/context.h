// Context parallelism: ranks that share the tokens of each sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/comm/world.h"
#include "trireme/ops/attention/score_tiles.h"
#include "trireme/plan/mesh/context_method.h"

namespace trireme::ops {

using mesh::ContextMethod;
std::string_view name(ContextMethod method);  // "ring", "all_gather", "ulysses", "hierarchical"

// The ranks of a sequence as attention sees them; every rank holds the tokens of plan/mesh/zigzag.h, or its share of rows. The
// default is one rank. Groups outlive backward.
struct ContextParallel {
  comm::Group* group = nullptr;  // all of them; null: one rank
  ContextMethod method = ContextMethod::kRing;
  comm::Group* lane =
      nullptr;  // the ring's ranks once more, so that a rank sends and receives at once; may be null
  comm::Group* inner = nullptr;  // hierarchical: neighbours, equally many everywhere
  comm::Group* outer = nullptr;  // hierarchical: the ranks with this rank's index in other groups
                                 // of neighbours
  // all_gather only: every rank holds its mesh::share of so many tokens, in order. 0: those of plan/mesh/zigzag.h.
  std::int64_t rows = 0;

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

// The tokens of a rank where `tokens` are those of all: one segment for one rank, else two.
Segments zigzag_segments(std::int64_t tokens, int rank, int ranks);

// The same of a rank of `context`, whichever way it shares tokens.
Segments token_segments(const ContextParallel& context, std::int64_t tokens, int rank);

// Cuts dim `dim` of a whole x for a rank, and puts all ranks' parts together. Throw as mesh::zigzag_tokens.
at::Tensor shard_tokens(const at::Tensor& x, std::int64_t dim, int rank, int ranks);
at::Tensor unshard_tokens(const std::vector<at::Tensor>& shards, std::int64_t dim);

// Position in the sequence of each of this rank's tokens, int64 [tokens / size].
at::Tensor token_positions(std::int64_t tokens, int rank, int ranks);

}  // namespace trireme::ops
