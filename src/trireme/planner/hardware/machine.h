// The machine at hand, as it was calibrated, and forecasts of steps on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/base/cpu.h"
#include "trireme/config/job.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/simulate/simulate.h"
#include "trireme/planner/hardware/hardware.h"
#include "trireme/planner/hardware/practice.h"

namespace trireme::planner {

// Result of `trireme bench calibrate`. It holds for the processor and the build that it was made with.
struct Calibration {
  std::string date;  // YYYY-MM-DD
  std::string cpu;   // as processor_of says
  std::string build;
  Cluster machine;     // gpu.core is there
  bool brief = false;  // measured for a few seconds
  bool operator==(const Calibration&) const = default;
};
// Identity of a processor, from the text of /proc/cpuinfo: names, families and parts, a digest of its features, and the
// number of `cores`.
std::string processor_of(std::string_view cpuinfo, int cores);

std::string print_calibration(const Calibration& calibration);
// Whether a text means to be one, and not a cluster file.
bool is_calibration(std::string_view text);
// Throws Error{kData} beginning with `what`.
Calibration parse_calibration(std::string_view text, const std::string& what);

struct StepForecast {
  simulate::Forecast lines;  // the step without the time outside its lines
  double step_s = 0;         // 0: not known
  double low_s = 0,
         high_s = 0;         // four of five measurements are expected between these; 0: not known
  double process_bytes = 0;  // that rank 0's process holds, without pages of files; 0: not known
  std::string source{};      // "by the calibration of 2026-11-22", "uncalibrated: ..."
};

// Uses constants of no particular machine, except for the rates of products, which are those of CPUs with such a unit.
StepForecast uncalibrated_step(const plan::PlanSet& plan, const std::string& why,
                               MatrixUnit unit = matrix_unit());

// The time of the step is unknown and set to 0; memory and the order of waits are known.
StepForecast no_forecast(const plan::PlanSet& plan, const std::string& why);

// Why a job's steps cannot be forecast by the machine's constants, such as a precision that was not calibrated; empty
// where they can.
std::string unforeseen(const config::Job& job);

// How the ranks of one host are made, and so what they talk over: tier "threads" or "shm".
enum class RanksAs { kThreads, kProcesses };

// A step on the cluster, line by line: of cores as below.
StepForecast forecast_on(const plan::PlanSet& plan, const config::Job& job,
                         const Practice& practice, const Cluster& cluster);

// Bytes that a process of so many ranks, each a thread, holds in addition to their tensors, without pages of files.
double outside_tensors(const Core& core, int ranks);

// Seconds on shared cores, by closed forms, of work that would take `seconds` with a core for each rank.
double on_cores(const Cluster& machine, int ranks, double seconds);

// A step on one host of cores, of which ranks may outnumber those there are.
StepForecast forecast_step(const plan::PlanSet& plan, const config::Job& job,
                           const Cluster& machine, RanksAs ranks = RanksAs::kThreads);
StepForecast forecast_step(const plan::PlanSet& plan, const config::Job& job,
                           const Calibration& calibration, RanksAs ranks);

// The one forecast of a run on this machine: none on GPUs, by the calibration where there is one, else uncalibrated, whose
// reason is `missing`.
StepForecast expected_step(const plan::PlanSet& plan, const config::Job& job,
                           const std::optional<Calibration>& calibration,
                           const std::string& missing, RanksAs ranks);

}  // namespace trireme::planner
