// Orders of forwards and input gradients over a V of stages, without weight gradients.
#pragma once

#include <array>
#include <vector>

#include "trireme/plan/schedules/fixed.h"

namespace trireme::plan::schedules {

// ZB-V (Qi et al. 2023, section 6): as many forwards down as the V lets run before its first gradient, then F and I of
// both chunks in turn.
std::vector<Row> zb_v_order(int ranks, int micro_batches);

// A building block (Qi et al. 2024): where one micro-batch's actions stand on a clock whose ticks are
// forwards of a chunk, repeated every six ticks.
struct BuildingBlock {
  std::array<int, 4> step{};  // from rank to rank: F down, F up, I down, I up
  std::array<int, 3> gap{};   // extra ticks at the turns: F to F, F to I, I to I
};
std::vector<Row> repeated(const BuildingBlock& block, int ranks, int micro_batches);

// Blocks that put no two actions of a rank on one tick, however often they are repeated, with steps of one or
// two ticks: a third to two thirds of ZB-V's lifetimes.
std::vector<BuildingBlock> building_blocks(int ranks);

}  // namespace trireme::plan::schedules
