// LowRank: matrices of a unit whose sums travel as thin factors (PowerSGD), and the ranks that multiply them.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/comm/codec/low_rank.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/matrix.h"

namespace trireme::plan {

struct FactoredMatrix {
  Matrix matrix;
  codec::ThinShape shape;
  int owner = 0;           // place of its owner among the ranks of a sender
  std::int64_t held = 0;   // its first element in what the owner holds of a sender's sum
  std::int64_t left = 0;   // the first of P in the factors of all matrices
  std::int64_t right = 0;  // the first of Q there
  std::int64_t start = 0;  // the first of Q in what starts the next step
};

// A rank of a sender that multiplies matrices.
struct FactorOwner {
  std::int64_t first = 0;            // of its factors, all P and then all Q, in those of the unit
  std::int64_t left = 0, right = 0;  // elements of its P and of its Q
  std::int64_t matrices = 0;         // elements of its matrices
  std::int64_t held = 0;             // and of each residual, which is zero elsewhere
  std::vector<ResidualRange> ranges{};  // of a residual
};

// M_i is the gradient of sender i and its residual. P is the sum of M_i Q over senders, orthonormalised, and Q
// then that of Q_i = M_i^T P. The sum of M_i is about P Q^T, sender i keeps M_i - P Q_i^T, and Q starts the next step.
// A rank multiplies whole matrices, so that products are the same in every layout. Ranks that have shards of a
// sender's sum distribute them: the largest first, to the rank that has least.
struct LowRank {
  CodedReduction reduction;
  std::vector<FactorOwner> owners;       // one, if a rank has whole sums
  std::vector<FactoredMatrix> matrices;  // by owner, then by place in the unit
  std::vector<ResidualRange> dense;      // elements that travel as they are; `at` counts them
  std::int64_t part = 0;                 // elements of a rank's shard
  std::int64_t factors = 0;              // elements of all P and Q
  std::int64_t starts = 0;  // of all Q, as a state that is one number for `start_block` elements
  std::int64_t start_block = 1;

  bool distributed() const { return owners.size() > 1; }
  const FactorOwner& owner(int place) const { return owners[distributed() ? place : 0]; }
  // Dense elements in [begin, end) of the unit.
  std::int64_t dense_in(std::int64_t begin, std::int64_t end) const;
  // Of the sum that the rank at `place` adds, and of its shard.
  std::int64_t dense_sent(int place) const;
  std::int64_t dense_of_part(int place) const;
  // Elements of the matrices of the owner at `to` in the shard of the rank at `from`.
  std::int64_t moved(int from, int to) const;
  // Bytes that are added over senders: what is dense, P and Q.
  std::int64_t summed_bytes(int place) const;
  // Bytes until the reduction ends, in addition to sums, and while matrices move to their owners.
  std::int64_t buffers(int place) const;
  std::int64_t moving_bytes(int place) const;
};
LowRank low_rank(const PlanSet& plan, UnitId unit);

// Place of a rank among those that share a sender's sum, or else among those that exchange.
int low_rank_place(const PlanSet& plan, int rank, UnitId unit);

}  // namespace trireme::plan
