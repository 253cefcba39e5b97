// Schedules of V-JEPA and V-JEPA 2: the numbers of their recipes.
#include <gtest/gtest.h>

#include "trireme/optim/schedule.h"

namespace trireme::optim::vjepa_schedule_test {
namespace {

using config::LrSchedule;

// 12,000 steps of warm-up from 1e-4, then constant.
TEST(VjepaSchedule, PretrainingWarmsUpAndStays) {
  const config::Optim optim{.lr = 5.25e-4,
                            .warmup_steps = 12'000,
                            .warmup_lr = 1e-4,
                            .schedule = LrSchedule::kConstant,
                            .weight_decay = 0.04};
  EXPECT_DOUBLE_EQ(learning_rate(optim, 240'000, 0), 1e-4 + 4.25e-4 / 12'000);
  for (const std::int64_t done : {11'999L, 12'000L, 239'999L}) {
    EXPECT_DOUBLE_EQ(learning_rate(optim, 240'000, done), 5.25e-4);
    EXPECT_EQ(weight_decay(optim, 240'000, done), 0.04);
    EXPECT_EQ(momentum({}, optim, 240'000, done), 0.99925);
  }
}

// Linear to 1e-6 over 15,000 steps, of which 12,000 are trained.
TEST(VjepaSchedule, CooldownStopsBeforeItsFloor) {
  const config::Optim optim{
      .lr = 5.25e-4, .min_lr = 1e-6, .decay_steps = 15'000, .schedule = LrSchedule::kLinear};
  EXPECT_NEAR(learning_rate(optim, 12'000, 11'999), 1.058e-4, 1e-12);
}

// V-JEPA 1: learning rate, weight decay and momentum after 90,000 of 112,500 steps.
TEST(VjepaSchedule, VjepaOneEndsWhereItsRecipeDoes) {
  const config::Optim optim{.lr = 6.25e-4,
                            .min_lr = 1e-6,
                            .warmup_steps = 12'000,
                            .warmup_lr = 2e-4,
                            .decay_steps = 112'500,
                            .schedule = LrSchedule::kCosine,
                            .weight_decay = 0.04,
                            .weight_decay_end = 0.4};
  const config::Jepa jepa{.momentum = 0.998, .momentum_end = 1};
  EXPECT_DOUBLE_EQ(learning_rate(optim, 90'000, 0), 2e-4 + 4.25e-4 / 12'000);
  EXPECT_NEAR(learning_rate(optim, 90'000, 89'999), 7.504e-5, 5e-9);
  EXPECT_NEAR(weight_decay(optim, 90'000, 0), 0.04, 1e-9);
  EXPECT_NEAR(weight_decay(optim, 90'000, 89'999), 0.36562, 5e-6);
  EXPECT_NEAR(momentum(jepa, optim, 90'000, 89'999), 0.9996, 1e-12);
  for (const std::int64_t done : {112'499L, 200'000L}) {
    EXPECT_DOUBLE_EQ(weight_decay(optim, 300'000, done), 0.4);
    EXPECT_DOUBLE_EQ(momentum(jepa, optim, 300'000, done), 1);
  }
}

// Without decay_steps the schedules end with the run, and a falling one falls.
TEST(VjepaSchedule, WeightDecayAndMomentumLastAsLongAsTheRun) {
  const config::Optim optim{.weight_decay = 0.4, .weight_decay_end = 0};
  EXPECT_NEAR(weight_decay(optim, 100, 49), 0.2, 1e-15);
  EXPECT_EQ(weight_decay(optim, 100, 99), 0);
  EXPECT_DOUBLE_EQ(momentum({.momentum = 0.5, .momentum_end = 0.9}, optim, 4, 0), 0.6);
}

// Up in 4,500 steps, held for 85,500, down to 0 in 4,500.
TEST(VjepaSchedule, ActionConditionedTrainingWarmsUpHoldsAndDecays) {
  const config::Optim optim{.lr = 4.25e-4,
                            .warmup_steps = 4'500,
                            .warmup_lr = 7.5e-5,
                            .schedule = LrSchedule::kWsd,
                            .wsd_decay_fraction = 4'500.0 / 94'500};
  EXPECT_DOUBLE_EQ(learning_rate(optim, 94'500, 0), 7.5e-5 + 3.5e-4 / 4'500);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 94'500, 4'499), 4.25e-4);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 94'500, 89'999), 4.25e-4);
  EXPECT_LT(learning_rate(optim, 94'500, 90'000), 4.25e-4);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 94'500, 94'499), 0);
}

}  // namespace
}  // namespace trireme::optim::vjepa_schedule_test
