#include "calibration.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "../build_id.h"
#include "cache.h"
#include "trireme/base/error.h"
#include "trireme/sim/numbers.h"

namespace trireme::app {
namespace {

constexpr char kHow[] = "trireme bench calibrate measures this machine";

planner::RanksAs ranks_as(const Place& place) {
  return place.launcher == Launcher::kThreads ? planner::RanksAs::kThreads
                                              : planner::RanksAs::kProcesses;
}

}  // namespace

std::string cpu_model() {
  return planner::processor_of(read_file("/proc/cpuinfo"),
                               static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string of_another(const planner::Calibration& calibration) {
  const auto told = [](const char* what, const std::string& its, const std::string& own) {
    return fmt::format("the calibration is of another {} ({}, not {})", what, its, own);
  };
  if (const std::string own = cpu_model(); calibration.cpu != own)
    return told("CPU", calibration.cpu, own);
  if (calibration.build != build_id()) return told("build", calibration.build, build_id());
  return "";
}

Path calibration_path() { return cache_directory() / "calibration.json"; }

FoundCalibration find_calibration() {
  // A machine without a home has none; that is no error of a command that would only have said more.
  const char* const home = std::getenv("HOME");
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if ((home == nullptr || *home != '/') && (cache == nullptr || *cache != '/'))
    return {.missing = "no cache directory"};
  const Path file = calibration_path();
  if (!std::filesystem::exists(file)) return {.missing = kHow};
  planner::Calibration found;
  try {
    found = planner::parse_calibration(read_file(file), file.string());
  } catch (const Error& error) {  // no reason not to run
    return {.missing = error.what()};
  }
  if (const std::string why = of_another(found); !why.empty())
    return {.missing = fmt::format("{}; {}", why, kHow)};
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  if (threads != nullptr && std::string(threads) != "1")
    return {.missing = fmt::format("OMP_NUM_THREADS={}; one thread a rank is calibrated", threads)};
  return {.calibration = std::move(found)};
}

FoundCalibration find_calibration(const config::Job& job) {
  if (const std::string why = planner::unforeseen(job); !why.empty()) return {.missing = why};
  return find_calibration();
}

planner::StepForecast expect(const Planned& planned, const Place& place) {
  if (planned.job.run.device == config::Device::kCuda)
    return planner::no_forecast(planned.plan,
                                "run.device=cuda; on GPUs: trireme explain --cluster NAME");
  const FoundCalibration found = find_calibration(planned.job);
  if (!found.calibration) return planner::uncalibrated_step(planned.plan, found.missing);
  if (place.launched() && place.local_world != place.world)
    return planner::uncalibrated_step(planned.plan, "ranks on several hosts");
  return planner::forecast_step(planned.plan, planned.job, *found.calibration, ranks_as(place));
}

plan::StepNumbers numbers_of(const Planned& planned, const planner::StepForecast& expected,
                             int rank) {
  plan::StepNumbers numbers = sim::step_numbers(planned.plan, expected.lines, rank);
  numbers.step_s = expected.step_s;
  numbers.low_s = expected.low_s;
  numbers.high_s = expected.high_s;
  numbers.source = expected.source;
  return numbers;
}

}  // namespace trireme::app
