// From a schedule's actions on chunks to lines on nodes.
#pragma once

#include <span>

#include "trireme/plan/passes/stage.h"
#include "trireme/plan/schedules/grid.h"

namespace trireme::plan {

// Inputs are loaded before the first forward that reads one. The input backward computes gradients of values, the
// weight backward the rest. Nodes that split run one part in each. A node that reads no value with a gradient runs
// whole in the weight backward. All others run whole in the input backward, and so do nodes of their chunk that share a
// unit with them. Joint nodes run after the last forward of their chunk, and their backward follows at once.
List lower(const Stage& stage, std::span<const schedules::Action> row);

}  // namespace trireme::plan
