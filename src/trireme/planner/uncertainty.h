// Uncertainty: how far forecasts are from what is measured.
#pragma once

namespace trireme::planner {

// Of four measurements out of five, what lies between.
struct Band {
  double low = 0;
  double high = 0;
};

// Seconds of a step that was forecast.
Band band(double seconds);

}  // namespace trireme::planner
