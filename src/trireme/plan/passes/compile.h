// From a program to the instruction lists of every rank.
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/plan/schedules/grid.h"

namespace trireme::plan {

// Runs the passes: lower, recompute, p2p, unshard, reduce, tail, lanes. `grid` has the actions of each stage in order;
// without it the recipe's schedule decides. Throws Error{kUsage} for a recipe, mesh or grid that the program cannot
// take, with the numbers and a way out.
PlanSet compile(Program program, const mesh::Mesh& mesh, const Recipe& recipe);
PlanSet compile(Program program, const mesh::Mesh& mesh, const Recipe& recipe,
                const schedules::Grid& grid);

// Throws Error{kUsage} if activations are to be offloaded and none can: only inputs of recomputed nodes can be, and no
// node is recomputed. This check is separate, because a search for recomputation compiles plans without any.
void check_activations_leave(const PlanSet& plan);

// The grid of the recipe's schedule. Stages cost what their nodes' flops say, or their measured seconds where
// all nodes have some.
schedules::Grid schedule_grid(const Program& program, const mesh::Mesh& mesh, const Recipe& recipe);

}  // namespace trireme::plan
