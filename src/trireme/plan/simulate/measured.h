// Measured times of a step: the ranks' clocks made one, and the cost of each node.
#pragma once

#include <vector>

#include "trireme/base/json.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate {

// Times of every line of every rank's list, by rank, in seconds of each rank's own clock.
using RankTimes = std::vector<std::vector<LineTime>>;

// From the first line of all, as one clock. Ranks of another host, whose norm of the gradients would not even overlap
// with rank 0's, are put where it ends together.
RankTimes on_one_clock(const plan::PlanSet& plan, RankTimes times);

// {"nodes": {NAME: {"forward", "input", "weight"}}}: mean seconds of a micro-batch over all ranks that run the node,
// without those in which it waited for others.
// A whole backward counts as input and weight by their operations; what a node never does counts nothing.
Json node_costs(const plan::PlanSet& plan, const RankTimes& times);

}  // namespace trireme::simulate
