// Hostwise: collectives of a group that is spread over hosts, each byte crossing between two hosts once.
#pragma once

#include <optional>
#include <vector>

#include "trireme/comm/exchange.h"
#include "trireme/comm/operation.h"

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
// hosts, among ranks with the same place. Results return the same way. Per host and direction an all_reduce of B bytes
// over H hosts sends 2 B (H - 1) / H over the network. Half of it has twice the width where bf16 is added in fp32.
// Memory: kPartials.
class Hostwise {
 public:
  Hostwise(Transport& transport, const Levels& levels);

  // Runs the operation, unless it is one that gains nothing: all_to_all, send, recv.
  bool run(const Operation& op, const Stamp& stamp);

 private:
  // Bytes of partial sums that a rank holds at a time.
  static constexpr std::size_t kPartials = std::size_t{4} << 20;
  // Bytes of a slice that a host passes on inside while the next ones come.
  static constexpr std::size_t kPart = std::size_t{1} << 20;

  void all_reduce(const Operation& op);
  void all_reduce_small(const Operation& op);
  void broadcast(const Operation& op);
  void barrier();
  // out = the own slice of the reduction of everybody's `in`; all slices by group rank.
  void reduce_scatter(const Operation& op, const Slices& slices, std::byte* out);
  // Brings every rank's slice of `data` to all.
  void all_gather(std::byte* data, const Slices& slices);

  // The slices of the ranks of a host, and of the ranks of this one's place.
  Slices block(const Slices& slices, std::size_t host) const;
  Slices column(const Slices& slices) const;
  std::size_t own() const { return across_.own() * inside_.size() + inside_.own(); }

  Exchange inside_;
  Exchange across_;
  std::vector<std::byte> partials_;
};

}  // namespace trireme::comm
