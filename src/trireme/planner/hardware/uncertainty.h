// Uncertainty: how far forecasts are from what is measured.
#pragma once

#include "trireme/planner/hardware/hardware.h"

namespace trireme::planner {

// Standard deviations to either side that four of five measurements are within.
inline constexpr double kFourOfFive = 1.2816;

// Range that holds four measurements out of five.
struct Band {
  double low = 0;
  double high = 0;
};

// Error band of a language model's forecast step, around `seconds`. For a GPU whose efficiency was fitted, it is the
// error of such runs; for another, their error with the defaults of hardware.h (`./dev bench scoreboard --unmeasured`).
Band band(const Gpu& gpu, double seconds);

// Band for a step of another family, or with unmeasured kernels. Its width is the error of such families' steps on a
// CPU with measured constants (docs/planner.md).
Band wider(const Band& band);

}  // namespace trireme::planner
