#include "measure_machine.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/build_id.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "calibration.h"
#include "trireme/base/error.h"
#include "trireme/base/free_memory.h"
#include "trireme/planner/hardware/uncertainty.h"

namespace trireme::app {

Json measured_machine(const MeasureOptions& options) {
  const int cores =
      options.cores > 0 ? options.cores : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const std::optional<std::int64_t> memory = free_memory();
  if (!memory) fail(ErrorKind::kData, "the kernel does not say how much memory is free");
  const std::string result = job_in_memory("");
  std::vector<std::string> words = {"bench-calibrate", "--cores", std::to_string(cores), "--json",
                                    result};
  if (options.seconds > 0)
    words.insert(words.end(), {"--seconds", std::to_string(options.seconds)});
  const elastic::Outcome outcome =
      run_workers(words, {.launcher = Launcher::kProcesses, .address = {}});
  if (outcome.exit_code != 0)
    fail(ErrorKind::kPeerLost, "the measurements ended with {}: {}", outcome.exit_code,
         outcome.cause);
  Json measured = parse_json(read_file(result), "what was measured");
  measured["memory"] = *memory;
  measured["measured"] = fmt::format("{:%F}", fmt::gmtime(std::time(nullptr)));
  measured["cpu"] = cpu_model();
  measured["build"] = build_id();
  return measured;
}

planner::Calibration fitted(const planner::Measurements& measured) {
  return {.date = measured.date,
          .cpu = measured.cpu,
          .build = measured.build,
          .machine = planner::fit_machine(measured)};
}

void keep_brief_calibration() {
  // Of steps that were not among the few that are measured.
  constexpr double kApart = 1.25;
  constexpr double kOutside =
      1.2;  // seconds: start and end of the worker with LibTorch, and the fit
  const double spread = std::log(kApart) / planner::kFourOfFive;
  planner::Calibration calibration = fitted(planner::read_measurements(
      measured_machine({.seconds = kBriefSeconds - kOutside}), "what was measured"));
  calibration.brief = true;
  double& own = calibration.machine.gpu.core->spread;
  own = std::max(own, spread);
  const Path file = brief_calibration_path();
  make_in_cache(file.parent_path());
  replace_file(file, planner::print_calibration(calibration));
}

}  // namespace trireme::app
