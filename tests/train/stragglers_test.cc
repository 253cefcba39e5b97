#include "trireme/train/watch/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace trireme::train::stragglers_test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::size_t kForward = 1;

// Steps of ranks that all have much else to do: times with a long tail.
class Steps {
 public:
  explicit Steps(std::size_t ranks) : ranks_(ranks) {}
  std::vector<exec::Busy> next(std::size_t slow = ~std::size_t{0}, double more_s = 0) {
    std::vector<exec::Busy> all(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      for (double& seconds : all[rank]) seconds = 0.02 * tail_(random_);
    if (slow < ranks_) all[slow][kForward] += more_s;
    return all;
  }

 private:
  std::size_t ranks_;
  std::mt19937_64 random_{7};
  std::lognormal_distribution<double> tail_{0, 0.3};
};

TEST(Stragglers, OneOfMoreForwardTimeIsNamedWithinTwentySteps) {
  Stragglers stragglers(std::vector<int>(8, 0));
  Steps steps(8);
  for (int step = 0; step < 30; ++step) EXPECT_THAT(stragglers.add(steps.next()), SizeIs(0));
  std::vector<Straggler> found;
  for (int step = 0; step < 20 && found.empty(); ++step)
    found = stragglers.add(steps.next(1, 0.03));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].kind, "forward");
  EXPECT_GT(found[0].seconds, found[0].others + 0.01);
  EXPECT_THAT(describe(found[0]), HasSubstr("ms a step for forward, others with its work"));
  for (int step = 0; step < 50; ++step)
    EXPECT_THAT(stragglers.add(steps.next(1, 0.03)), SizeIs(0)) << "it is told once";
}

TEST(Stragglers, BusyMachinesMakeNone) {
  int told = 0;
  for (const int ranks : {2, 4, 8}) {
    Stragglers stragglers(std::vector<int>(static_cast<std::size_t>(ranks), 0));
    Steps steps(static_cast<std::size_t>(ranks));
    for (int step = 0; step < 10'000; ++step)
      told += static_cast<int>(stragglers.add(steps.next()).size());
  }
  EXPECT_EQ(told, 0);
}

TEST(Stragglers, StagesAreNotComparedWithEachOther) {
  Stragglers stragglers({0, 0, 1, 1});
  Steps steps(4);
  for (int step = 0; step < 100; ++step) {
    std::vector<exec::Busy> busy = steps.next();
    for (const std::size_t rank : {2, 3})
      for (double& seconds : busy[rank]) seconds *= 5;
    EXPECT_THAT(stragglers.add(busy), SizeIs(0));
  }
}

TEST(Stragglers, WhoHasNoPeersIsComparedWithItself) {
  Stragglers stragglers({0, 1});
  Steps steps(2);
  for (int step = 0; step < 30; ++step) EXPECT_THAT(stragglers.add(steps.next()), SizeIs(0));
  std::vector<Straggler> found;
  for (int step = 0; step < 20 && found.empty(); ++step)
    found = stragglers.add(steps.next(1, 0.05));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_TRUE(found[0].alone);
  EXPECT_THAT(describe(found[0]), HasSubstr("before"));
}

// Halts of 45 ms, as of half a core in periods of 100 ms: now in the forward, now in the backward, and not in each step.
TEST(Stragglers, OneThatIsHaltedInSomeStepsIsNamedWithinTwenty) {
  Stragglers stragglers({0, 0});
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(1, 0.03);
  std::vector<Straggler> found;
  for (int step = 0; step < 20 && found.empty(); ++step) {
    std::vector<exec::Busy> busy(2, exec::Busy{0, 0.023, 0.046, 0.004});
    for (exec::Busy& rank : busy)
      for (double& seconds : rank) seconds *= noise(random);
    if (step % 5 < 3) busy[1][1 + static_cast<std::size_t>(step) % 2] += 0.045;
    found = stragglers.add(busy);
  }
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].kind, "all work");
  EXPECT_NEAR(found[0].seconds - found[0].others, 0.027, 0.005);
}

TEST(Stragglers, HaltsNowAndThenMakeNone) {
  Stragglers stragglers({0, 0});
  for (int step = 0; step < 1000; ++step) {
    std::vector<exec::Busy> busy(2, exec::Busy{0, 0.023, 0.046, 0.004});
    if (step % 9 < 2) busy[1][1] += 1;  // four of 18 steps
    EXPECT_THAT(stragglers.add(busy), SizeIs(0)) << step;
  }
}

TEST(Stragglers, SomeMillisecondsAreNone) {
  Stragglers stragglers({0, 0});
  for (int step = 0; step < 100; ++step)
    EXPECT_THAT(
        stragglers.add({exec::Busy{1e-3, 1e-3, 1e-3, 1e-3}, exec::Busy{2e-3, 2e-3, 2e-3, 2e-3}}),
        SizeIs(0));
}

}  // namespace
}  // namespace trireme::train::stragglers_test
