// The cheapest choice of what runs again that fits into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Of nodes that run again and parts that are left out, operations more in a micro-batch; seconds where all nodes have
// some.
double recomputation_cost(const Program& program);

// What a rank may take.
struct MemoryBudget {
  std::int64_t bytes = 0;
  bool host = false;  // what waits in host memory counts: the tensors are there as well
};

// The program with the cheapest choice, for each of `nodes`, of parts to leave out or to run again whole, with which no
// rank's peak, by the memory account of what `compile` makes of it, is above the budget. What is chosen already stays.
// Throws Error{kNoRoom} with the arithmetic where nothing fits.
//
// At every line of a plan its nodes' choices add up. So: the cheapest choice that fits at the peaks seen so far, the plan
// with it, its peak one more to fit at, until nothing is above the budget. That is the optimum where a choice changes
// nothing in the plan but what its nodes hold, and as far as cheapest_choice is exact. Where it changes more (backwards in
// halves become whole, searched schedules go by costs, inputs of what runs again leave) and so no choice seems to fit, or
// the peaks go on moving for more than a few rounds, the stages that are above the budget leave out more, what costs least
// for its bytes first, until the account agrees: that fits, but may cost more than it had to.
Program cheapest_within(Program program, const std::vector<NodeId>& nodes,
                        const MemoryBudget& budget,
                        const std::function<PlanSet(const Program&)>& compile);

}  // namespace trireme::plan
