// What a step pays of a stage's seconds, for each level of ZeRO and each practice.
#include "trireme/planner/cost/stage_time.h"

#include <gtest/gtest.h>

#include "tests/planner/cards.h"

namespace trireme::planner::stage_time_test {
namespace {

constexpr StageTime kStage{.forward = 4,
                           .input = 5,
                           .weight = 3,
                           .gathers = 6,
                           .regathers = 6,
                           .renewed = 5,
                           .reduces = 9,
                           .first = 1};

TEST(StageTime, ShardsTakeNoLessThanTheirExchanges) {
  for (const int zero : {0, 1}) EXPECT_EQ(turn_of(kStage, zero, {}).length(), 12);
  EXPECT_EQ(turn_of(kStage, 2, {}).forward, 4);
  EXPECT_EQ(turn_of(kStage, 2, {}).backward, 9);
  EXPECT_EQ(turn_of(kStage, 3, {}).forward, 6);
  EXPECT_EQ(turn_of(kStage, 3, {}).backward, 15);
  EXPECT_EQ(turn_of(kStage, 3, {.overlaps_shards = false}).length(), 12) << "computation has them";
}

TEST(StageTime, WhatIsNotCoveredIsWaitedForAtTheEnd) {
  EXPECT_EQ(waits_at_end(kStage, 0, {}), 1);  // 9 of gradients in a backward of 8
  EXPECT_EQ(waits_at_end(kStage, 1, {}), 1 + 5);
  EXPECT_EQ(waits_at_end(kStage, 1, {.overlaps_gathers = true}), 1 + 1);
  EXPECT_EQ(waits_at_end(kStage, 1, {.overlaps_reduction = false}), 9 + 5);
  EXPECT_EQ(waits_at_end(kStage, 2, {}), 5);
  EXPECT_EQ(waits_at_end(kStage, 3, {}), 0);
  StageTime both = kStage;
  both += kStage;
  EXPECT_EQ(waits_at_end(both, 1, {}), 2 + 10);
}

TEST(StageTime, CollectivesSlowWhatTheyCover) {
  Gpu gpu = synthetic_card();
  gpu.efficiency.shared = 0.8;
  EXPECT_EQ(with_shards(gpu, {}, 4, 0, 0), 4);
  EXPECT_DOUBLE_EQ(with_shards(gpu, {}, 4, 2, 2), 2 + 2 / 0.8);
  EXPECT_DOUBLE_EQ(with_shards(gpu, {}, 4, 9, 9), 4 / 0.8);
  EXPECT_DOUBLE_EQ(with_shards(gpu, {}, 4, 2, 1), 2 + 2 / 0.9) << "half of the channels";
  EXPECT_EQ(with_shards(gpu, {.overlaps_shards = false}, 4, 2, 2), 6);
}

// Masters, states and gradients: read, and written but for gradients, which their norm reads once more.
TEST(StageTime, AnUpdateMovesWhatItReadsAndWrites) {
  const Gpu gpu = synthetic_card();
  EXPECT_DOUBLE_EQ(update_seconds(gpu, {.elements = 1e9, .states = 8e9}, 4, 2),
                   streamed_seconds(gpu, 1e9 * (2 * 4 + 2 * 2) + 2 * 8e9));
  EXPECT_DOUBLE_EQ(update_seconds(gpu, {.averaged = 1e9, .flops = 1e12}, 4, 2),
                   streamed_seconds(gpu, 12e9) + 1e12 / gpu.fp32_flops);
}

}  // namespace
}  // namespace trireme::planner::stage_time_test
