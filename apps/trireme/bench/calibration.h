// What this machine was calibrated to do, and forecasts of steps by it.
#pragma once

#include <optional>
#include <string>

#include "apps/trireme/environment.h"
#include "apps/trireme/summary.h"
#include "trireme/base/fs.h"
#include "trireme/plan/text/draw.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::app {

// This machine's processor as the kernel tells it, with what it can and how many there are.
std::string cpu_model();

// Why constants of another CPU or build do not hold here; empty where they do.
std::string of_another(const planner::Calibration& calibration);

// Where `trireme bench calibrate` leaves its constants, and where a first run leaves those of its brief measurement.
Path calibration_path();
Path brief_calibration_path();
// Where runs on this CPU keep the fastest products that they have measured; empty without a cache directory.
Path peaks_path();

// What holds for this machine and build, or why nothing does.
struct FoundCalibration {
  std::optional<planner::Calibration> calibration;
  Path file{};
  std::string missing;
  bool measurable = false;  // a calibration made now would hold
};
// The thorough one, else the brief one.
FoundCalibration find_calibration();
// The same for a job: one that the constants say nothing about has none, and one on several hosts.
FoundCalibration find_calibration(const config::Job& job, const Place& place);

// Measures this machine for a few seconds where nothing is known of it and the job's ranks are of this machine alone, and
// keeps what comes of it. TRIREME_NO_CALIBRATE in the environment refuses.
void calibrate_for(const config::Job& job, const Place& place);

planner::StepForecast expect(const Planned& planned, const Place& place);

// With what a step takes beside its lines, and the source.
plan::StepNumbers numbers_of(const Planned& planned, const planner::StepForecast& expected,
                             int rank);

}  // namespace trireme::app
