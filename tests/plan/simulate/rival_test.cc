#include "trireme/plan/simulate/rival.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/pipelines.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate::rival_test {
namespace {

using schedules::Schedule;
using testing::HasSubstr;

// Forward, input and weight backward of every stage.
std::string text(Schedule schedule, const plan::NodeSeconds& seconds) {
  return rival_text(plan::pipeline(schedule, 4, 8, seconds),
                    [](const plan::PlanSet& plan) { return simulate(plan, CostModel{}).step_s; });
}

TEST(Rival, OfAScheduleThatGainsNothingIsNamedWithItsNumbers) {
  const plan::NodeSeconds even{.forward = 1, .input = 1, .weight = 1};
  // Its last rank begins (p - 1) F later, and all meet at the norm.
  EXPECT_THAT(text(Schedule::kZbH2, even),
              testing::AllOf(HasSubstr("zb_h2 takes "), HasSubstr("parallel.schedule=zb_h1 "),
                             HasSubstr("gradient norm")));
  EXPECT_THAT(text(Schedule::kDualPipeV, even),
              testing::AllOf(HasSubstr("parallel.schedule=zb_v "), HasSubstr("experts")));
  EXPECT_EQ(text(Schedule::kZbH1, even), "");
  EXPECT_EQ(text(Schedule::k1F1B, even), "");
}

// A weight half that is short leaves a bubble that more memory fills.
TEST(Rival, IsNotNamedWhereTheScheduleGains) {
  const plan::NodeSeconds short_weights{.forward = 1, .input = 1.5, .weight = 0.5};
  EXPECT_EQ(text(Schedule::kZbH2, short_weights), "");
}

}  // namespace
}  // namespace trireme::simulate::rival_test
