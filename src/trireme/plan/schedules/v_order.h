// Orders of forwards and input gradients over a V of stages, without weight gradients.
#pragma once

#include <array>
#include <vector>

#include "trireme/plan/schedules/fixed.h"

namespace trireme::schedules {

// ZB-V (Qi et al. 2023, section 6): as many forwards down as the V allows before its first gradient, then F and I of
// both chunks alternate.
std::vector<Row> zb_v_order(int ranks, int micro_batches);

// A building block (Qi et al. 2024): the ticks of one micro-batch's actions on every rank, repeated every
// `period` ticks. A tick is the forward of a chunk; a period of six leaves no bubble between micro-batches.
struct BuildingBlock {
  int early = 1, late = 1;   // ticks of a hop down the V: up to rank `turn`, and after it
  int turn = 0;              // every hop up the V takes one tick
  std::array<int, 3> gap{};  // extra ticks at the turns of the V: F to F, F to I, I to I
  int period = 6;
};

// Blocks in which a rank never has two actions on one tick and holds at most `limit` chunks from F to I. Only
// the blocks that hold most are returned.
std::vector<BuildingBlock> building_blocks(int ranks, int limit);

// Reordering of the two ends of a repeated block.
struct Ends {
  bool fill = false;   // `limit` chunks enter the pipeline before the first I of chunk 0
  bool drain = false;  // the last I follow each other as closely as the V permits
  int limit = 0;
};

// Empty if the reordered ends hold more than the limit or do not fit the block.
std::vector<Row> repeated(const BuildingBlock& block, int ranks, int micro_batches,
                          const Ends& ends);

}  // namespace trireme::schedules
