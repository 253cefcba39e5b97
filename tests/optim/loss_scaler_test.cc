#include "trireme/optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::optim::loss_scaler_test {
namespace {

// The scale after each step of a history: x overflows, . does not.
std::vector<double> scales(const LossScaleOptions& options, std::string_view history) {
  LossScaler scaler(options);
  std::vector<double> found;
  std::int64_t run_step = 100;  // it began later than the run
  for (char step : history) {
    scaler.update(step == 'x', run_step++);
    found.push_back(scaler.scale());
  }
  return found;
}

LossScaleOptions options(std::int64_t hysteresis, std::int64_t window = 4, double floor = 1) {
  return {.start = 16, .window = window, .factor = 2, .hysteresis = hysteresis, .floor = floor};
}

using Scales = std::vector<double>;

TEST(LossScaler, StartsWithDeepSpeedsDefaults) {
  const LossScaleOptions defaults;
  EXPECT_EQ(LossScaler(defaults).scale(), 65536);
  EXPECT_EQ(defaults.window, 1000);
  EXPECT_EQ(defaults.factor, 2);
  EXPECT_EQ(defaults.hysteresis, 2);
  EXPECT_EQ(defaults.floor, 1);
}

// Worked by hand from DeepSpeed's update_scale: the last overflow begins at -1, so the first window ends with step 3.
TEST(LossScaler, RaisesAtTheEndOfEveryWindow) {
  EXPECT_EQ(scales(options(2), "........."), (Scales{16, 16, 16, 32, 32, 32, 32, 64, 64}));
}

TEST(LossScaler, LowersAtOnceWithoutHysteresis) {
  // Overflow in step 1: windows end with steps 5 and 9.
  EXPECT_EQ(scales(options(1), ".x........"), (Scales{16, 8, 8, 8, 8, 16, 16, 16, 16, 32}));
  EXPECT_EQ(scales(options(1), "xxx."), (Scales{8, 4, 2, 2}));
}

TEST(LossScaler, HysteresisForgivesOverflowsUntilTheScaleIsRaised) {
  // 2: the first is forgiven, though it begins a new window; all that follow before a rise lower the scale.
  EXPECT_EQ(scales(options(2), "x....x.x"), (Scales{16, 16, 16, 16, 32, 32, 32, 16}));
  EXPECT_EQ(scales(options(2), "xxx.x"), (Scales{16, 8, 4, 4, 2}));
  // What was counted down is not forgotten by good steps short of a window.
  EXPECT_EQ(scales(options(2), "x..x"), (Scales{16, 16, 16, 8}));
  EXPECT_EQ(scales(options(3), "xx.x...."), (Scales{16, 16, 16, 8, 8, 8, 8, 16}));
  EXPECT_EQ(scales(options(3), "xx....xxx"), (Scales{16, 16, 16, 16, 16, 32, 32, 32, 16}));
}

TEST(LossScaler, StopsBelowTheFloor) {
  EXPECT_EQ(scales(options(1, 4, 3), "xxx."), (Scales{8, 4, 3, 3}));
  try {
    scales(options(1, 4, 3), "xxxx");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_NE(std::string(error.what()).find("loss scale of 3, its floor"), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find("step 103: "), 0u) << error.what();
  }
  // Hysteresis is counted down at the floor too.
  EXPECT_EQ(scales(options(2, 4, 16), "x."), (Scales{16, 16}));
  EXPECT_THROW(scales(options(2, 4, 16), "xx"), Error);
}

TEST(LossScaler, GoesOnFromAnyState) {
  const std::string_view history = "..x.x....x......xx......";
  for (std::int64_t hysteresis : {1, 2, 3})
    for (std::size_t cut = 0; cut <= history.size(); ++cut) {
      LossScaler whole(options(hysteresis)), first(options(hysteresis)),
          second(options(hysteresis));
      for (char step : history) whole.update(step == 'x', 0);
      for (char step : history.substr(0, cut)) first.update(step == 'x', 0);
      second.restore(first.state());
      for (char step : history.substr(cut)) second.update(step == 'x', 0);
      EXPECT_EQ(second.state(), whole.state()) << hysteresis << " " << cut;
    }
}

}  // namespace
}  // namespace trireme::optim::loss_scaler_test
