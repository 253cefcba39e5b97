// Schedules of V-JEPA and V-JEPA 2: the numbers of their recipes.
#include <gtest/gtest.h>

#include "trireme/optim/schedule.h"

namespace trireme::optim {
namespace {

using config::LrSchedule;

// 12,000 steps of warm-up from 1e-4, then constant.
TEST(VjepaSchedule, PretrainingWarmsUpAndStays) {
  const RateShape rate{
      .kind = LrSchedule::kConstant, .start = 1e-4, .peak = 5.25e-4, .warmup = 12'000};
  EXPECT_DOUBLE_EQ(rate_at(rate, 1), 1e-4 + 4.25e-4 / 12'000);
  for (double step : {12'000.0, 12'001.0, 240'000.0})
    EXPECT_DOUBLE_EQ(rate_at(rate, step), 5.25e-4);
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
                            .decay_steps = 112'500,
                            .schedule = LrSchedule::kCosine};
  EXPECT_NEAR(learning_rate(optim, 90'000, 89'999), 7.504e-5, 5e-9);
  EXPECT_NEAR(
      rate_at({.kind = LrSchedule::kCosine, .peak = 0.04, .floor = 0.4, .decay = 112'500}, 90'000),
      0.36562, 5e-6);
  EXPECT_NEAR(
      rate_at({.kind = LrSchedule::kLinear, .peak = 0.998, .floor = 1, .decay = 112'500}, 90'000),
      0.9996, 1e-12);
}

// Up in 4,500 steps, held for 85,500, down to 0 in 4,500.
TEST(VjepaSchedule, ActionConditionedTrainingWarmsUpHoldsAndDecays) {
  const config::Optim optim{.lr = 4.25e-4,
                            .warmup_steps = 4'500,
                            .schedule = LrSchedule::kWsd,
                            .wsd_decay_fraction = 4'500.0 / 94'500};
  EXPECT_DOUBLE_EQ(learning_rate(optim, 94'500, 4'499), 4.25e-4);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 94'500, 89'999), 4.25e-4);
  EXPECT_LT(learning_rate(optim, 94'500, 90'000), 4.25e-4);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 94'500, 94'499), 0);
}

}  // namespace
}  // namespace trireme::optim
