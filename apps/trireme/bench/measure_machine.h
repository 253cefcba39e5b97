// Measuring this machine: the worker times it, the planner fits.
#pragma once

#include <string>

#include "trireme/planner/hardware/calibrate.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::app {

inline constexpr double kBriefSeconds = 5;  // that a brief measurement takes at most

struct MeasureOptions {
  int cores = 0;       // that work at once; 0: all there are
  double seconds = 0;  // at most; 0: as long as it takes to be thorough
};

// Throws Error when the measurements end early.
Json measured_machine(const MeasureOptions& options);
planner::Calibration fitted(const planner::Measurements& measured);

// Keeps a brief calibration where forecasts look for one.
void keep_brief_calibration();

}  // namespace trireme::app
