#include "tests/launch/elastic/simulation.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "trireme/base/clock.h"

namespace trireme::elastic::simulation_test {
namespace {

std::uint64_t seeds() {
  const char* wanted = std::getenv("TRIREME_SIMULATED_LIVES");
  return wanted ? std::strtoull(wanted, nullptr, 10) : 20000;
}

TEST(Simulation, EveryLifeRecoversAndNoTwoGenerationsMeet) {
  const Stopwatch watch;
  std::uint64_t events = 0, commits = 0, generations = 0, reported = 0;
  MishapCounts mishaps{};
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    Simulation life(seed, {});
    const std::string violation = life.live();
    ASSERT_EQ(violation, "") << "seed " << seed;
    events += life.events;
    commits += life.commits;
    generations += life.generations;
    reported += life.reported;
    for (std::size_t kind = 0; kind < mishaps.size(); ++kind) mishaps[kind] += life.mishaps[kind];
  }
  fmt::print(
      "{} lives, {} events, {} generations, {} faults reported, {} commits, {:.0f} lives/s\n",
      seeds(), events, generations, reported, commits,
      static_cast<double>(seeds()) / watch.seconds());
  EXPECT_GT(generations, 3 * seeds() / 2);
  EXPECT_GT(reported, seeds() / 2);
  for (std::size_t kind = 0; kind < mishaps.size(); ++kind)
    EXPECT_GT(mishaps[kind], seeds() / 200) << name(static_cast<Mishap>(kind));
}

constexpr std::uint64_t kBroken = 2000;

// How many of the first lives a broken protocol survives.
std::uint64_t survivors(const Sabotage& sabotage, const std::string& found) {
  std::uint64_t fine = 0;
  for (std::uint64_t seed = 1; seed <= kBroken; ++seed) {
    const std::string violation = Simulation(seed, sabotage).live();
    if (violation.empty())
      ++fine;
    else
      EXPECT_THAT(violation, ::testing::HasSubstr(found)) << "seed " << seed;
  }
  return fine;
}

TEST(Simulation, ChecksFindALeaseThatIsTooLong) {
  EXPECT_LT(survivors({.lease_s = 20}, ""), kBroken * 98 / 100);
}

TEST(Simulation, ChecksFindALeaderThatForgets) {
  EXPECT_LT(survivors({.forget_generation = true}, ""), kBroken * 98 / 100);
}

TEST(Simulation, ChecksFindAnAccusationForOnesOwnPause) {
  EXPECT_LT(survivors({.blame_pauses = true}, ""), kBroken * 98 / 100);
}

TEST(Simulation, ChecksFindRanksThatNeverBeganAndNobodyTold) {
  EXPECT_LT(survivors({.hide_missing = true}, ""), kBroken * 98 / 100);
}

TEST(Simulation, ChecksFindALeaderThatKnowsAnotherLastStep) {
  EXPECT_LT(survivors({.early_end = true}, "left with 0 after step"), kBroken * 98 / 100);
}

}  // namespace
}  // namespace trireme::elastic::simulation_test
