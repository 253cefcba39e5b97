// What is a spike of the loss and what is only noise.
#include "trireme/train/run/spike.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "trireme/base/error.h"
#include "trireme/train/run/train_state.h"

namespace trireme::train::spike_test {
namespace {

// Falls as losses do, from 10 to about 2, with noise of a hundredth of it and heavier tails than a normal one's.
double curve(std::int64_t step, std::mt19937_64& random) {
  std::student_t_distribution<double> noise(12);
  const double level = 2 + 8 * std::pow(1 + static_cast<double>(step) / 20, -0.7);
  return level * (1 + 0.01 * noise(random));
}

TEST(SpikeDetector, NoisyCurvesThatFallRaiseNoAlarm) {
  int alarms = 0, eager = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    SpikeDetector ten({.zscore = 10}), three({.zscore = 3});
    for (std::int64_t step = 1; step <= 5000; ++step) {
      const double loss = curve(step, random);
      alarms += ten.judge(step, loss).has_value();
      eager += three.judge(step, loss).has_value();
    }
  }
  EXPECT_EQ(alarms, 0);
  EXPECT_GT(eager, 20) << "these curves would test nothing";
}

TEST(SpikeDetector, SpikesAreFoundAtTheirStep) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    SpikeDetector detector({.zscore = 10});
    for (std::int64_t step = 1; step <= 600; ++step) {
      const bool high = step >= 400 && step < 420;
      const double loss = curve(step, random) + (high ? 1.5 : 0);
      const std::optional<Spike> spike = detector.judge(step, loss);
      EXPECT_EQ(spike.has_value(), step == 400) << step;
      if (!spike) continue;
      EXPECT_EQ(spike->step, 400);
      EXPECT_EQ(spike->loss, loss);
      EXPECT_GT(spike->zscore, 10);
      EXPECT_NEAR(spike->median, 3, 0.3);
    }
  }
}

// Losses 1, 2, .. 9: median 5, median distance 2.
TEST(SpikeDetector, TheScoreIsWhatTheFormulaSays) {
  SpikeDetector detector({.zscore = 4, .window = 9});
  for (std::int64_t step = 1; step <= 9; ++step)
    EXPECT_FALSE(detector.judge(step, static_cast<double>(step)).has_value());
  SpikeDetector below = detector;
  EXPECT_FALSE(below.judge(10, 5 + 4 * 1.4826 * 2 - 1e-9).has_value());
  const std::optional<Spike> spike = detector.judge(10, 5 + 4 * 1.4826 * 2 + 1e-9);
  ASSERT_TRUE(spike.has_value());
  EXPECT_EQ(spike->median, 5);
  EXPECT_NEAR(spike->zscore, 4, 1e-6);
  EXPECT_EQ(detector.state().losses.size(), 9u);
  EXPECT_EQ(detector.state().losses.front(), 2);
}

TEST(SpikeDetector, AFlatCurveIsNotTakenToBeWithoutNoise) {
  SpikeDetector detector({.zscore = 6, .window = 10});
  for (std::int64_t step = 1; step <= 20; ++step) detector.judge(step, 2.5);
  EXPECT_FALSE(detector.judge(21, 2.55).has_value());
  EXPECT_TRUE(detector.judge(22, 2.57).has_value());
}

TEST(SpikeDetector, OnlyWhatRisesCountsAndOnlyAfterSomeHistory) {
  SpikeDetector detector({.zscore = 6, .window = 10});
  for (std::int64_t step = 1; step <= 4; ++step) detector.judge(step, 2);
  EXPECT_FALSE(detector.judge(5, 90).has_value()) << "four losses are no history";
  EXPECT_FALSE(detector.judge(6, 0.1).has_value());
  EXPECT_TRUE(detector.judge(7, 90).has_value());
  SpikeDetector off({.zscore = 0});
  for (std::int64_t step = 1; step <= 200; ++step) EXPECT_FALSE(off.judge(step, 2));
  EXPECT_FALSE(off.judge(201, 1000).has_value());
  EXPECT_EQ(off.state(), SpikeState{});
}

TEST(SpikeDetector, AHigherLevelIsOneSpikeAndThenNormal) {
  SpikeDetector detector({.zscore = 6, .window = 10});
  for (std::int64_t step = 1; step <= 10; ++step) detector.judge(step, 2);
  EXPECT_TRUE(detector.judge(11, 4).has_value());
  for (std::int64_t step = 12; step <= 30; ++step)
    EXPECT_FALSE(detector.judge(step, 4).has_value());
  EXPECT_FALSE(detector.state().high);
  EXPECT_TRUE(detector.judge(31, 8).has_value());
}

TEST(SpikeDetector, RewindsCountUntilTheStepIsPast) {
  SpikeDetector detector({.zscore = 6, .window = 10});
  for (std::int64_t step = 1; step <= 10; ++step) detector.judge(step, 2);
  const SpikeState ten = detector.state();
  for (std::int64_t step = 11; step <= 14; ++step) detector.judge(step, 2);
  detector.rewind(ten, detector.judge(15, 9).value());
  EXPECT_EQ(detector.state().losses, ten.losses);
  EXPECT_EQ(detector.state().rewinds, 1);
  EXPECT_EQ(detector.state().furthest, 15);
  detector.judge(11, 2);
  detector.rewind(ten, detector.judge(12, 9).value());
  EXPECT_EQ(detector.state().rewinds, 2);
  EXPECT_EQ(detector.state().furthest, 15);
  for (std::int64_t step = 11; step <= 14; ++step) detector.judge(step, 2);
  EXPECT_EQ(detector.state().rewinds, 2);
  detector.judge(15, 2);
  EXPECT_EQ(detector.state().rewinds, 0);
}

TEST(SpikeDetector, AResumedOneJudgesAlike) {
  std::mt19937_64 random(5);
  SpikeDetector whole({.zscore = 1, .window = 20});
  SpikeDetector resumed = whole;
  int spikes = 0;
  for (std::int64_t step = 1; step <= 400; ++step) {
    const double loss = curve(step, random);
    const auto spike = whole.judge(step, loss);
    spikes += spike.has_value();
    EXPECT_EQ(resumed.judge(step, loss).has_value(), spike.has_value());
    const TrainState state{.updates = step, .spikes = resumed.state()};
    resumed = SpikeDetector({.zscore = 1, .window = 20});
    resumed.restore(parse_train_state(print(state), step, "x").spikes);
    EXPECT_EQ(resumed.state(), whole.state());
  }
  EXPECT_GT(spikes, 3);
  SpikeDetector narrower({.zscore = 1, .window = 8});
  narrower.restore(whole.state());
  EXPECT_EQ(narrower.state().losses,
            std::vector<double>(whole.state().losses.end() - 8, whole.state().losses.end()));
}

TEST(TrainState, KeepsWhatIsLeftOut) {
  const TrainState state{
      .updates = 7,
      .left_out = loaders::LeftOut({{3, 5}, {9, 9}}),
      .spikes = {.losses = {0.1 + 0.2, 1e-300, 2}, .high = true, .rewinds = 2, .furthest = 40}};
  EXPECT_EQ(parse_train_state(print(state), 9, "x"), state);
  for (const char* broken :
       {R"({"left_out":3})", R"({"left_out":[3]})", R"({"left_out":[[3]]})",
        R"({"left_out":[[3,2]]})", R"({"left_out":[[3,4],[5,6]]})", R"({"left_out":[[-1,4]]})",
        R"({"left_out":[[1,4.5]]})", R"({"spikes":{}})",
        R"({"spikes":{"losses":[null],"high":false,"rewinds":0,"furthest":0}})",
        R"({"spikes":{"losses":[],"high":false,"rewinds":-1,"furthest":0}})",
        R"({"spikes":{"losses":[],"high":0,"rewinds":1,"furthest":0}})"})
    EXPECT_THROW(parse_train_state(broken, 9, "x"), Error) << broken;
}

}  // namespace
}  // namespace trireme::train::spike_test
