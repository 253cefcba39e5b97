#include "calibration.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "apps/build_id.h"
#include "apps/trireme/environment.h"
#include "measure_machine.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/plan/simulate/numbers.h"

namespace trireme::app {
namespace {

constexpr char kHow[] = "trireme bench calibrate measures this machine";

planner::RanksAs ranks_as(const Place& place) {
  return place.launcher == Launcher::kThreads ? planner::RanksAs::kThreads
                                              : planner::RanksAs::kProcesses;
}

bool has_cache() {
  const char* const home = std::getenv("HOME");
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  return (home != nullptr && *home == '/') || (cache != nullptr && *cache == '/');
}

// Calibration in a file, if it is of this machine and build.
FoundCalibration read_calibration(const Path& file) {
  if (!std::filesystem::exists(file)) return {.missing = kHow, .measurable = true};
  planner::Calibration found;
  try {
    found = planner::parse_calibration(read_file(file), file.string());
  } catch (const Error& error) {  // no reason not to run
    return {.missing = error.what(), .measurable = true};
  }
  if (const std::string why = of_another(found); !why.empty())
    return {.missing = fmt::format("{}; {}", why, kHow), .measurable = true};
  return {.calibration = std::move(found), .file = file};
}

}  // namespace

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");  // whose size is 0
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return planner::processor_of(text, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
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
Path brief_calibration_path() { return cache_directory() / "calibration-brief.json"; }

Path peaks_path() {
  if (!has_cache()) return {};
  make_in_cache(cache_directory());
  return cache_directory() / fmt::format("peaks-{}.json", hex64(hash64(cpu_model())));
}

FoundCalibration find_calibration() {
  // A machine without a home has none; that is no error of a command that would only have said more.
  if (!has_cache()) return {.missing = "no cache directory"};
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  if (threads != nullptr && std::string(threads) != "1")
    return {.missing = fmt::format("OMP_NUM_THREADS={}; one thread a rank is calibrated", threads)};
  FoundCalibration thorough = read_calibration(calibration_path());
  if (thorough.calibration) return thorough;
  FoundCalibration brief = read_calibration(brief_calibration_path());
  return brief.calibration || thorough.missing == kHow ? brief : thorough;
}

FoundCalibration find_calibration(const config::Job& job, const Place& place) {
  if (const std::string why = planner::unforeseen(job); !why.empty()) return {.missing = why};
  if (place.launched() && place.local_world != place.world)
    return {.missing = "ranks on several hosts"};
  return find_calibration();
}

void calibrate_for(const config::Job& job, const Place& place) {
  const char* const refused = std::getenv("TRIREME_NO_CALIBRATE");
  if ((refused != nullptr && *refused != '\0') || place.launched()) return;
  const FoundCalibration found = find_calibration(job, place);
  if (found.calibration || !found.measurable) return;
  fmt::print(
      "measure   this machine, for at most {} s and once: forecasts go by it "
      "(--no-calibrate leaves it out)\n",
      kBriefSeconds);
  std::fflush(stdout);
  try {
    keep_brief_calibration();
  } catch (const Error& error) {  // no reason not to train
    fmt::print("note      not measured: {}\n", error.what());
  }
}

planner::StepForecast expect(const Planned& planned, const Place& place) {
  const FoundCalibration found = find_calibration(planned.job, place);
  return planner::expected_step(planned.plan, planned.job, found.calibration, found.missing,
                                ranks_as(place));
}

plan::StepNumbers numbers_of(const Planned& planned, const planner::StepForecast& expected,
                             int rank) {
  plan::StepNumbers numbers = simulate::step_numbers(planned.plan, expected.lines, rank);
  numbers.step_s = expected.step_s;
  numbers.low_s = expected.low_s;
  numbers.high_s = expected.high_s;
  numbers.source = expected.source;
  return numbers;
}

}  // namespace trireme::app
