// Uncertainty: how far forecasts are from what is measured.
#pragma once

#include <optional>

#include "trireme/planner/hardware.h"

namespace trireme::planner {

// Of four measurements out of five, what lies between.
struct Band {
  double low = 0;
  double high = 0;
};

// Seconds of a step that was forecast, on a GPU whose efficiency was fitted.
Band band(double seconds);

// None for a GPU whose efficiency was not: nothing was measured that says how far off it is.
std::optional<Band> band(const Gpu& gpu, double seconds);

}  // namespace trireme::planner
