// Collectives composed from stamped messages: one algorithm, hence one association, for all back ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"
#include "trireme/comm/hostwise.h"
#include "trireme/comm/operation.h"
#include "trireme/comm/patterns/pattern.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

// Runs a group's operations over a transport, one at a time. Every rank exchanges its slices directly with every other.
// Each byte crosses once, and each element is added on one rank in the tree of tree_sum.h. With levels, operations of
// hostwise.h run host by host: each byte crosses once between hosts, in the same tree. Other algorithms take the place
// of direct exchange between hosts, or between ranks where there are no levels (pattern.h).
class Collectives {
 public:
  // `ranks` are the group's, `rank` this one's position.
  // Throws Error{kUsage} where their number does not allow the choice.
  Collectives(Transport& transport, const std::vector<int>& ranks, int rank,
              const std::optional<Levels>& levels, const algorithm::Choice& choice = {});

  // Blocks until the operation has ended on this rank. `sequence` is its number within the group,
  // or within the pair for send and recv. Throws Lost, Mismatch or Error.
  void run(const Operation& op, std::uint64_t sequence);

 private:
  void run_flat(const Operation& op);
  void all_reduce(const Operation& op);
  void reduce_scatter(const Operation& op);
  void all_gather(const Operation& op);
  void broadcast(const Operation& op);
  void all_to_all(const Operation& op);

  algorithm::Kind kind_;
  std::vector<double> shares_;  // of ranks in large sums of all; empty: equal
  std::unique_ptr<Pattern> all_;
  std::optional<Hostwise> hostwise_;
};

}  // namespace trireme::comm
