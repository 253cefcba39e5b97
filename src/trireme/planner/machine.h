// The machine at hand, as it was calibrated, and forecasts of steps on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/config/job.h"
#include "trireme/plan/plan.h"
#include "trireme/planner/hardware.h"
#include "trireme/sim/simulate.h"

namespace trireme::planner {

// What `trireme bench calibrate` keeps. It holds for the CPU model and the build that it was made with.
struct Calibration {
  std::string date;   // YYYY-MM-DD
  std::string cpu;    // as the kernel names it
  std::string build;
  Cluster machine;    // gpu.core is there
  bool operator==(const Calibration&) const = default;
};
std::string print_calibration(const Calibration& calibration);
// Throws Error{kData} beginning with `what`.
Calibration parse_calibration(std::string_view text, const std::string& what);

struct StepForecast {
  sim::Forecast lines;  // the step without what comes beside its lines
  double step_s = 0;
  double low_s = 0, high_s = 0;  // four of five measurements are expected between these
};

// Why a job's steps cannot be forecast by the machine's constants, such as a precision that was not calibrated; empty
// where they can.
std::string unforeseen(const config::Job& job);

// A step on a machine whose processor is a core, of which ranks may outnumber those there are. `transport` names the tier
// that ranks talk over.
StepForecast forecast_step(const plan::PlanSet& plan, const config::Job& job,
                           const Cluster& machine, std::string_view transport = "threads");

// Resident bytes of a process with these ranks' tensors at their peak.
double process_bytes(const plan::PlanSet& plan, const Cluster& machine, int first_rank, int ranks);

}  // namespace trireme::planner
