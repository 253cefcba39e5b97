// Uncertainty: how far forecasts are from what is measured.
#pragma once

#include "trireme/planner/hardware/hardware.h"

namespace trireme::planner {

// Standard deviations to either side that four of five measurements are within.
inline constexpr double kFourOfFive = 1.2816;

// Of four measurements out of five, what lies between.
struct Band {
  double low = 0;
  double high = 0;
};

// Of a language model's step that was forecast, around `seconds`: on a GPU whose efficiency was fitted as far as such
// runs are off; on another as far as they are off by the defaults of hardware.h (`./dev bench scoreboard --unmeasured`).
Band band(const Gpu& gpu, double seconds);

// Of a step of another family, or of kernels that nothing was measured of: wider, as far as steps of such families were
// off on a CPU whose constants were measured (docs/planner.md).
Band wider(const Band& band);

}  // namespace trireme::planner
