#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::plan::schedules {
namespace {

using testing::Each;

GridTimes times(Schedule schedule, int ranks, int micro_batches) {
  const ScheduleShape shape{
      .ranks = ranks, .chunks = chunks_of(schedule, 0), .micro_batches = micro_batches};
  return time_grid(make_grid(schedule, shape), shape);
}

// anchors.md, "Makespans ran with the zero-bubble scheduler".
TEST(Schedules, TakeAsLongAsTheZeroBubbleSchedulerSays) {
  for (const auto& [p, m] : {std::pair{4, 8}, {4, 12}, {2, 4}, {8, 24}}) {
    const GridTimes one = times(Schedule::k1F1B, p, m);
    EXPECT_EQ(one.makespan, 3 * m + 3 * (p - 1));
    for (int rank = 0; rank < p; ++rank)
      EXPECT_EQ(one.peak_activations[static_cast<std::size_t>(rank)], p - rank);
    const GridTimes zero = times(Schedule::kZbH1, p, m);
    EXPECT_EQ(zero.makespan, 3 * m + (p - 1));
    EXPECT_THAT(zero.peak_activations, Each(p));
  }
}

}  // namespace
}  // namespace trireme::plan::schedules
