#include "trireme/optim/schedule.h"

#include <gtest/gtest.h>

namespace trireme::optim::schedule_test {
namespace {

using config::LrSchedule;

RateShape shape(LrSchedule kind) {
  return {.kind = kind,
          .start = .01,
          .peak = .1,
          .floor = .001,
          .warmup = 100,
          .decay = 1000,
          .wsd_decay = 200};
}

// Megatron's optimizer_param_scheduler gives these two values.
TEST(Schedule, MegatronsNumbers) {
  EXPECT_DOUBLE_EQ(rate_at(shape(LrSchedule::kLinear), 50), .055);
  EXPECT_DOUBLE_EQ(rate_at(shape(LrSchedule::kLinear), 500), .056);
}

TEST(Schedule, EveryKindWarmsUpAndEndsAtItsFloor) {
  for (LrSchedule kind :
       {LrSchedule::kConstant, LrSchedule::kLinear, LrSchedule::kCosine, LrSchedule::kWsd}) {
    const RateShape rate = shape(kind);
    EXPECT_DOUBLE_EQ(rate_at(rate, 0), .01);
    EXPECT_DOUBLE_EQ(rate_at(rate, 100), .1);
    const double floor = kind == LrSchedule::kConstant ? .1 : .001;
    EXPECT_DOUBLE_EQ(rate_at(rate, 1000), floor);
    EXPECT_DOUBLE_EQ(rate_at(rate, 5000), floor);
    for (int step = 101; step <= 1000; ++step)
      EXPECT_LE(rate_at(rate, step), rate_at(rate, step - 1)) << step;
  }
}

TEST(Schedule, HalfwayPoints) {
  EXPECT_NEAR(rate_at(shape(LrSchedule::kCosine), 550), (.1 + .001) / 2, 1e-15);
  EXPECT_DOUBLE_EQ(rate_at(shape(LrSchedule::kWsd), 800), .1);
  EXPECT_DOUBLE_EQ(rate_at(shape(LrSchedule::kWsd), 900), (.1 + .001) / 2);
  EXPECT_DOUBLE_EQ(rate_at(shape(LrSchedule::kConstant), 900), .1);
}

TEST(Schedule, InverseSquareRootFallsFromTheWarmUpOn) {
  const RateShape falls = shape(LrSchedule::kInverseSqrt);
  EXPECT_DOUBLE_EQ(rate_at(falls, falls.warmup), falls.peak);
  EXPECT_DOUBLE_EQ(rate_at(falls, 4 * falls.warmup), falls.peak / 2);
  EXPECT_DOUBLE_EQ(rate_at(falls, 1e9), falls.floor);
}

TEST(Schedule, UpdatesCountFromOne) {
  const config::Optim optim{.lr = .1,
                            .min_lr = .01,
                            .warmup_steps = 10,
                            .decay_steps = 0,
                            .schedule = LrSchedule::kLinear};
  EXPECT_DOUBLE_EQ(learning_rate(optim, 110, 0), .01);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 110, 9), .1);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 110, 59), .055);
  EXPECT_DOUBLE_EQ(learning_rate(optim, 110, 109), .01);
  config::Optim no_warmup = optim;
  no_warmup.warmup_steps = 0;
  no_warmup.decay_steps = 100;
  EXPECT_DOUBLE_EQ(learning_rate(no_warmup, 5, 0), .1 - .09 / 100);
}

}  // namespace
}  // namespace trireme::optim::schedule_test
