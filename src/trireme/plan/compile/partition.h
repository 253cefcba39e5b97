// Where a model is cut into pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/plan/program.h"
#include "trireme/plan/recipe.h"

namespace trireme::plan {

// Nodes of every stage, one after the other, at least one each.
using Cuts = std::vector<int>;

// First nodes of the stages of a pipeline, and their ranks.
struct Pipeline {
  schedules::Placement placement = schedules::Placement::kLoop;
  int ranks = 1;
  int chunks = 1;
  int stages() const { return ranks * chunks; }
  int rank_of(int stage) const { return schedules::rank_of(placement, ranks, stage); }
};

// The cuts with the fastest slowest stage. Among those within 1% of it: those whose largest stage needs least memory,
// and then the most even ones. If ranks have several chunks, nodes then move between stages as long as the slowest
// rank, or else the slowest stage, gets faster, whatever the memory. The cost of a node is its measured seconds if all
// nodes have some, else its flops: forward, and backward if it has one (a frozen encoder has none). Memory is that of
// the recipe's states for every unit once a stage, plus saved bytes of nodes for as many micro-batches as 1F1B keeps
// there. Throws Error{kUsage} for more stages than nodes.
Cuts balance(const Program& program, const Pipeline& pipeline, const Recipe& recipe);

// The program with stage s on the rank that the placement says. Throws Error{kUsage} if the cuts are not as many
// as there are stages, or do not add up to the nodes.
Program place(Program program, const Cuts& cuts, const Pipeline& pipeline);

}  // namespace trireme::plan
