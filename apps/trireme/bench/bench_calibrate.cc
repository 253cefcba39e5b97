// trireme bench calibrate: the worker measures, the planner fits, and what comes of it is kept for forecasts.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/trireme/output.h"
#include "bench_commands.h"
#include "calibration.h"
#include "measure_machine.h"
#include "trireme/base/error.h"
#include "trireme/planner/hardware/calibrate.h"
#include "trireme/planner/hardware/uncertainty.h"

namespace trireme::app {
namespace {

void print(const char* name, const planner::CoreRates& rates) {
  const auto products = [&](const char* kind, const planner::ProductCurve& curve) {
    fmt::print(
        "{:<5} {:<17} {:>7.1f} GFLOP/s; in addition {:.3f} ns an element of the left operand, "
        "{:.3f} of the right, {:.3f} of the result, {:.1f} us a call\n",
        name, kind, curve.rate * 1e-9, curve.left * 1e9, curve.right * 1e9, curve.result * 1e9,
        curve.call_s * 1e6);
  };
  products("forward", rates.forward);
  products("input gradients", rates.input);
  products("weight gradients", rates.crosswise);
  fmt::print("{:<5} {:<17} {:>7.1f} GFLOP/s\n", name, "attention", rates.attention * 1e-9);
  fmt::print("{:<5} {:<17} {:>7.1f} GB/s, {:.1f} us a kernel\n", name, "other kernels",
             rates.memory_rate * 1e-9, rates.kernel_s * 1e6);
}

// How far four of five steps are from their forecasts at most, in percent.
double percent_of(const planner::Core& core) {
  return 100 * (std::exp(planner::kFourOfFive * core.spread) - 1);
}

void print(const planner::Cluster& machine) {
  const planner::Core& core = *machine.gpu.core;
  print("fp32", core.fp32);
  print("bf16", core.half);
  fmt::print("      {:<17} {:>7.1f} GB/s\n", "optimizer", core.update_rate * 1e-9);
  for (const planner::NetworkTier& tier : machine.tiers)
    fmt::print("      sums over {:<7} {:>7.1f} GB/s, {:.1f} us\n", tier.name, tier.rate * 1e-9,
               tier.latency_s * 1e6);
  fmt::print(
      "      {} core{}; all busy, each takes {:.3f} times as long; {:.2f} ms a step in addition to "
      "its lines; {:.0f} MB a process\n",
      machine.gpus_per_host, machine.gpus_per_host == 1 ? "" : "s", core.crowding,
      1e3 * core.step_s, core.process / 1e6);
  fmt::print("      four of five steps measured here are within {:.1f}% of their forecasts\n",
             percent_of(core));
}

planner::Measurements measure(const BenchCalibrateOptions& options) {
  if (!options.from.empty())
    return planner::read_measurements(parse_json(read_file(options.from), options.from),
                                      options.from);
  const Json measured = measured_machine({.cores = options.cores});
  if (!options.json.empty()) write_file_synced(options.json, measured.dump());
  return planner::read_measurements(measured, "what was measured");
}

}  // namespace

int bench_calibrate(const BenchCalibrateOptions& options) {
  check_output(options.out, "--out");
  check_output(options.json);
  const planner::Calibration calibration = fitted(measure(options));
  print(calibration.machine);
  constexpr double kDisturbed = 13;
  if (const double apart = percent_of(*calibration.machine.gpu.core);
      apart > kDisturbed && options.out.empty())
    fail(ErrorKind::kData,
         "not kept: four of five steps measured here are within {:.1f} % of their forecasts, but "
         "at most {:.0f} % is needed. Something else was running: measure again, or keep it with "
         "--out FILE",
         apart, kDisturbed);
  const Path file = options.out.empty() ? calibration_path() : Path(options.out);
  if (options.out.empty()) make_in_cache(file.parent_path());
  replace_file(file, planner::print_calibration(calibration));
  fmt::print("kept in {}{}\n", file.string(),
             options.out.empty() ? ": explain, train and bench forecast by it from now on" : "");
  return 0;
}

}  // namespace trireme::app
