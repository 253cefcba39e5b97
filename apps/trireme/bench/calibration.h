// Calibration of this machine, and forecasts of steps from it.
#pragma once

#include <optional>
#include <string>

#include "apps/trireme/environment.h"
#include "apps/trireme/summary.h"
#include "trireme/base/fs.h"
#include "trireme/plan/text/draw.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::app {

// This machine's processor from /proc/cpuinfo, with its features and number of cores.
std::string cpu_model();

// Why constants of another CPU or build do not hold here; empty where they do.
std::string of_another(const planner::Calibration& calibration);

// Where `trireme bench calibrate` leaves its constants, and where a first run leaves those of its brief measurement.
Path calibration_path();
Path brief_calibration_path();
// Where runs on this CPU keep the fastest products that they have measured; empty without a cache directory.
Path peaks_path();

// The calibration for this machine and build, or the reason why there is no such calibration.
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

// Measures this machine for a few seconds and stores the result, if it has no calibration and all of the job's ranks
// are on it. TRIREME_NO_CALIBRATE in the environment prevents it.
void calibrate_for(const config::Job& job, const Place& place);

planner::StepForecast expect(const Planned& planned, const Place& place);

// Numbers of a step including the time outside its lines, with their source.
plan::StepNumbers numbers_of(const Planned& planned, const planner::StepForecast& expected,
                             int rank);

}  // namespace trireme::app
