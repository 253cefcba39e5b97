// From a schedule's actions on chunks to lines on nodes.
#pragma once

#include <span>

#include "trireme/plan/passes/stage.h"
#include "trireme/plan/schedules/grid.h"

namespace trireme::plan {

// Inputs are loaded before the first forward that reads one. The input half of a backward runs what gives
// gradients to values, the weight half the rest: nodes that split do their halves, a node that reads no value
// with a gradient waits whole for the weight half, any other goes whole in the input half, and so does every node
// of its chunk that shares a unit with it. Joint nodes run behind the last forward of their chunk, and at once back.
List lower(const Stage& stage, std::span<const schedules::Action> row);

}  // namespace trireme::plan
