// Hostwise: collectives of a group that is spread over hosts, each byte crossing between two hosts once.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trireme/comm/operation.h"
#include "trireme/comm/patterns/pattern.h"

namespace trireme::comm {

// A group whose ranks are sorted by host, in aligned blocks of one power of two. The sum of a host is therefore a
// subtree of the canonical one (tree_sum.h).
struct Levels {
  std::vector<int> inside;  // the ranks of this rank's host
  std::vector<int> across;  // of every host the rank that has this one's place there
  int place;                // of this rank's in `inside`
  int host;                 // and in `across`
};

// Levels of the rank at `position` of `ranks`; hosts[r] is the host of world rank r. Nothing where the ranks lie
// otherwise, or all on one host or each on its own.
std::optional<Levels> levels_of(const std::vector<int>& ranks, int position,
                                const std::vector<int>& hosts);

// Sums are computed inside every host first, each rank keeping the part of its column. Then columns are summed across
// hosts, among ranks with the same place, by an algorithm. Results return the same way. Directly, per host and direction an all_reduce of B bytes
// over H hosts sends 2 B (H - 1) / H over the network. Half of it has twice the width where bf16 is added in fp32.
// Memory: kPartials.
class Hostwise {
 public:
  Hostwise(Transport& transport, const Levels& levels, const algorithm::Choice& across);

  // Runs the operation, unless it is one that gains nothing: all_to_all, send, recv.
  bool run(const Operation& op, const Stamp& stamp);

 private:
  // Bytes of partial sums that a rank holds at a time.
  static constexpr std::size_t kPartials = std::size_t{4} << 20;
  // Bytes of a slice that a host passes on inside while the next ones come.
  static constexpr std::size_t kPart = std::size_t{1} << 20;

  void all_reduce(const Operation& op);
  // What each rank owns of a large sum.
  Slices owned(const Operation& op) const;
  void all_reduce_small(const Operation& op);
  // For a pattern that keeps buffers whole.
  void all_reduce_whole(const Operation& op, const Slices& slices);
  void broadcast(const Operation& op);
  void barrier();
  // out = the own slice of the reduction of everybody's `in`; all slices by group rank.
  void reduce_scatter(const Operation& op, const Slices& slices, std::byte* out);
  // Brings every rank's slice of `data` to all.
  void all_gather(std::byte* data, const Slices& slices);

  // Sums of this host, in partials_, of its ranks' parts of slices: those of this rank's column. Returns where they lie.
  Slices add_inside(const Operation& op, const Slices& parts);
  // Brings every rank of this host what the host has of a host's slices.
  void share(std::byte* data, const Slices& slices, std::size_t host);
  // Bytes of every slice whose partial sums fit kPartials.
  std::size_t step_of(DType partial, DType type) const;
  // The slices of the ranks of a host, and of the ranks of this one's place.
  Slices block(const Slices& slices, std::size_t host) const;
  Slices column(const Slices& slices) const;
  std::size_t own() const { return across_->own() * inside_.size() + inside_.own(); }

  Exchange inside_;
  std::unique_ptr<Pattern> across_;
  std::vector<double> shares_;  // of hosts in large sums of all; empty: equal
  std::vector<std::byte> partials_, sums_;
};

}  // namespace trireme::comm
