// Placement: which stage runs, holds, loads and needs what. Read off the program alone.
#pragma once

#include <algorithm>
#include <ranges>
#include <vector>

#include "trireme/plan/program.h"
#include "trireme/plan/recipe.h"

namespace trireme::plan {

inline bool contains(const std::vector<int>& ids, int id) {
  return std::ranges::find(ids, id) != ids.end();
}

// How many times a step runs a node whose micro-batches are `count`: a joint one once, as micro-batch 0.
inline int rounds(const Node& node, int count) { return node.joint ? 1 : count; }

// Micro-batches whose values a line of the node reads, and to whose gradients its backward adds: the line's `mb`, or of
// a joint node all.
inline std::ranges::iota_view<int, int> batches(const Node& node, int mb, int count) {
  return node.joint ? std::views::iota(0, count) : std::views::iota(mb, mb + 1);
}

// Pipeline stages of the program: one more than the largest Node::stage.
int stage_count(const Program& program);

// Chunks of the stage that has most.
int chunk_count(const Program& program);

// The node that writes each value, -1 for inputs.
std::vector<NodeId> writers(const Program& program);

// Inputs that nodes of the stage read, ascending: what `load` brings.
std::vector<ValueId> inputs_of_stage(const Program& program, int stage);

// Stages that hold a unit, ascending: those of its users. A unit without users lives with the unit that it follows, or
// else on stage 0.
std::vector<int> stages_of_unit(const Program& program, UnitId unit);

// Units that a stage holds, ascending.
std::vector<UnitId> units_of_stage(const Program& program, int stage);

// Nodes of the stage whose backward adds to the unit's gradient, ascending.
std::vector<NodeId> gradient_users(const Program& program, const GradientFlow& flow, UnitId unit,
                                   int stage);

// Whether a node's backward is split where a schedule splits backwards. Recomputed nodes run an unsplit backward: one
// part of it would keep what recomputation saves.
bool splits_backward(const Program& program, const GradientFlow& flow, NodeId node);

// Measured seconds plus those of the recomputed parts, in proportion to their share of the forward's operations.
NodeSeconds with_parts(const Node& node, NodeSeconds seconds);

// Cost of a node in a step, per micro-batch: its measured seconds if all nodes have some, else operations. Backward is
// in the part where the plan has it: an unsplit one in the input backward, or in the weight backward if it gives no
// gradient to a value. Recomputation is part of it.
std::vector<NodeSeconds> node_costs(const Program& program, const GradientFlow& flow);

// Whether a value that a node reads is written in the node's own segment.
bool is_inner(const Program& program, const std::vector<NodeId>& writers, NodeId reader,
              ValueId value);

// Stages other than its writer's that read a value, ascending.
std::vector<int> remote_readers(const Program& program, ValueId value);

// Whether nodes of the stage give the value a gradient.
bool gives_gradient(const Program& program, const GradientFlow& flow, ValueId value, int stage);

}  // namespace trireme::plan
