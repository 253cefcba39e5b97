// The cheapest choice of recomputation that fits into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Additional operations a micro-batch of recomputed nodes and omitted parts; seconds if all nodes have some.
double recomputation_cost(const Program& program);

// Memory that a rank may take.
struct MemoryBudget {
  std::int64_t bytes = 0;
  bool host = false;  // what waits in host memory counts: the tensors are there as well
};

// The program with the cheapest choice, for each of `nodes`, of parts to leave out or of whole recomputation. No rank's
// peak, by the memory account of the plan that `compile` makes of it, is above the budget. Existing choices stay.
// Throws Error{kOutOfMemory} with the arithmetic if nothing fits.
//
// At every line of a plan its nodes' choices add up. The search repeats three steps until nothing is above the budget.
// It finds the cheapest choice that fits at the peaks seen so far, compiles its plan, and adds the plan's peak to the
// constraints. The result is optimal if a choice changes nothing in the plan except the memory of its nodes, and if
// cheapest_choice is exact. A choice may change more: split backwards become whole, searched schedules depend on costs,
// inputs of recomputed nodes are offloaded. Then it may seem that no choice fits, or peaks may move for more than a few
// rounds. In that case the stages above the budget leave out more, the cheapest for its bytes first, until the account
// agrees. The result fits, but may cost more than necessary.
Program cheapest_within(Program program, const std::vector<NodeId>& nodes,
                        const MemoryBudget& budget,
                        const std::function<PlanSet(const Program&)>& compile);

}  // namespace trireme::plan
