// Days of islands: crashes, slow links, suspended processes.
#include "tests/launch/islands/simulation.h"

#include <gtest/gtest.h>

namespace trireme::islands::simulation_test {
namespace {

TEST(IslandsDay, FewIslandsThatCrashOftenLoseNothingAndCountNothingTwice) {
  std::int64_t late = 0, adopted = 0, crashes = 0, waits = 0, leaves = 0, merges = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Weather weather{.islands = 2 + static_cast<int>(seed % 4)};
    if (seed % 3 == 0) weather.quorum = 1;
    const Day day = live(seed, weather);
    ASSERT_EQ(day.wrong, "") << "seed " << seed;
    EXPECT_GT(day.merges, 10) << "seed " << seed;
    late += day.late;
    adopted += day.adopted;
    crashes += day.crashes;
    waits += day.waits;
    leaves += day.leaves;
    merges += day.merges;
  }
  // All of it was met.
  EXPECT_GT(late, 100);
  EXPECT_GT(adopted, 100);
  EXPECT_GT(crashes, 500);
  EXPECT_GT(waits, 100);
  EXPECT_GT(leaves, 100);
  EXPECT_GT(merges, 2000);
}

TEST(IslandsDay, AThousandIslands) {
  const Day day = live(7, {.islands = 1000, .crash_hours = 48, .suspend_hours = 48});
  ASSERT_EQ(day.wrong, "");
  // Rounds of half an hour for each fragment, each with a majority at least.
  EXPECT_GT(day.merges, 60);
  EXPECT_GT(day.contributions, day.merges * 450);
  EXPECT_GT(day.crashes, 300);
  // Suspended and absent time aside, islands train: 30 s a step on average.
  EXPECT_GT(day.steps, std::int64_t{1000} * 2880 * 8 / 10);
  EXPECT_LT(day.behind, 50);
}

// A tenth of the islands computes at half speed: these do fewer steps of a round, and nobody waits for them.
TEST(IslandsDay, IslandsAtHalfSpeedKeepUpAndCostTheOthersNothing) {
  for (const int islands : {2, 3, 1000}) {
    const Day day = live(3, {.islands = islands,
                             .crash_hours = 1e9,
                             .suspend_hours = 1e9,
                             .slow = 0,
                             .half = islands == 1000 ? 0.1 : 0.5});
    ASSERT_EQ(day.wrong, "");
    EXPECT_GE(day.speed, 0.97) << islands;
    EXPECT_LE(day.lag, 2) << islands;
  }
}

}  // namespace
}  // namespace trireme::islands::simulation_test
