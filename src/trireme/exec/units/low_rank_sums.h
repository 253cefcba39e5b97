// LowRankSums: reduction of a unit's gradient as factors of its matrices (plan::LowRank).
#pragma once

#include "trireme/exec/groups.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"
#include "trireme/plan/low_rank.h"

namespace trireme::exec {

class LowRankSums {
 public:
  LowRankSums(const plan::PlanSet& plan, int rank, const Groups& groups, MemoryCount& memory,
              plan::UnitId id, UnitState& unit);

  // Sends what is dense and P, in one message where ranks get the whole sum; `unit.draws` are those of the step.
  void begin(double gradient_scale);
  // When P has come: exchanges Q, and leaves the sum and what an update takes over.
  void finish();

 private:
  comm::Group& exchanging() const { return groups_.over(plan::coded_axes(unit_.sharing)); }
  // Element [0] of the matrix in the sum of an own sender, and the sender's residual of it.
  float* matrix(int sender, const plan::FactoredMatrix& one) const;
  at::Tensor residual(const Flat& all, int sender, const plan::FactoredMatrix& one) const;
  float* factor(std::int64_t first) const { return static_cast<float*>(state_.factors.at(first)); }
  template <typename Use>
  void for_own(const Use& use) const;  // use(matrix) for each one of this rank
  // Sums products of own senders, `count` of each, into `to`.
  void add_products(float* to, std::int64_t count) const;
  comm::Ticket add_over_ranks(float* sum, std::int64_t count) const;

  void allocate();
  void add_dense(const std::vector<Flat>& sums);
  comm::Ticket send_first();
  void move_to_owners(const Flat& shard);
  void add_residuals() const;
  void leave_residuals() const;
  void write_sum(const Flat& sum, std::int64_t begin) const;

  const Groups& groups_;
  MemoryCount& memory_;
  UnitState& unit_;
  LowRankState& state_;
  const plan::LowRank low_;
  const int place_;  // among the ranks of a sender, or else among those that exchange
  const plan::FactorOwner& mine_;
};

}  // namespace trireme::exec
