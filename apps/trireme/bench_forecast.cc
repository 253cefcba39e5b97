// trireme bench forecast: one job in many layouts, each as the planner expects it and as it is.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "../median.h"
#include "calibration.h"
#include "commands.h"
#include "dataset.h"
#include "output.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/config/fields.h"
#include "workers.h"

namespace trireme::app {
namespace {

struct Layout {
  const char* name;
  int ranks;
  bool processes;
  std::vector<std::string> sets;
};

// Micro-batches of 8 in bf16 where nothing else is said.
const Layout kLayouts[] = {
    {"1 rank", 1, false, {}},
    {"1 rank, fp32", 1, false, {"precision.compute=fp32"}},
    {"1 rank, micro-batch 1", 1, false, {"run.micro_batch=1"}},
    {"1 rank, micro-batch 4, fp32", 1, false, {"run.micro_batch=4", "precision.compute=fp32"}},
    {"1 rank, recompute full", 1, false, {"recompute.policy=full"}},
    {"1 rank, recompute selective", 1, false, {"recompute.policy=selective"}},
    {"dp 2, ZeRO-0", 2, false, {"run.micro_batch=4"}},
    {"dp 2, ZeRO-1, processes", 2, true, {"parallel.zero=1", "run.micro_batch=4"}},
    {"dp 2, ZeRO-2, fp32",
     2,
     false,
     {"parallel.zero=2", "run.micro_batch=4", "precision.compute=fp32"}},
    {"dp 2, ZeRO-3, processes", 2, true, {"parallel.zero=3", "run.micro_batch=2"}},
    {"tp 2", 2, false, {"parallel.tp=2"}},
    {"tp 2 without sequence parallelism, fp32",
     2,
     false,
     {"parallel.tp=2", "parallel.sequence_parallel=false", "precision.compute=fp32"}},
    {"cp 2", 2, false, {"parallel.cp=2"}},
    {"pp 2, gpipe", 2, false, {"parallel.pp=2", "parallel.schedule=gpipe", "run.micro_batch=4"}},
    {"pp 2, 1f1b, processes",
     2,
     true,
     {"parallel.pp=2", "parallel.schedule=1f1b", "run.micro_batch=2"}},
    {"pp 2, interleaved",
     2,
     false,
     {"parallel.pp=2", "parallel.schedule=interleaved", "run.micro_batch=2"}},
    {"pp 2, zb_h1, fp32",
     2,
     false,
     {"parallel.pp=2", "parallel.schedule=zb_h1", "run.micro_batch=4", "precision.compute=fp32"}},
    {"pp 2, zb_v", 2, false, {"parallel.pp=2", "parallel.schedule=zb_v", "run.micro_batch=4"}},
    {"dp 4, ZeRO-3", 4, false, {"parallel.zero=3", "run.micro_batch=4"}},
    {"dp 4, ZeRO-1, processes", 4, true, {"parallel.zero=1", "run.micro_batch=2"}},
    {"tp 4", 4, false, {"parallel.tp=4"}},
    {"pp 4, 1f1b", 4, false, {"parallel.pp=4", "parallel.schedule=1f1b", "run.micro_batch=2"}},
    {"pp 4, zb_h1, processes",
     4,
     true,
     {"parallel.pp=4", "parallel.schedule=zb_h1", "run.micro_batch=2"}},
    {"dp 2 x pp 2, ZeRO-1", 4, false, {"parallel.pp=2", "parallel.zero=1", "run.micro_batch=2"}},
    {"tp 2 x pp 2", 4, false, {"parallel.pp=2", "parallel.tp=2", "run.micro_batch=4"}},
    {"dp 2 x tp 2, ZeRO-2", 4, false, {"parallel.tp=2", "parallel.zero=2", "run.micro_batch=4"}},
};

struct Apart {
  double forecast = 0, measured = 0;
  double error() const { return forecast / measured - 1; }
};

struct Result {
  std::string name;
  Apart step, memory;
  double low_s = 0, high_s = 0;
  double cpu_s = 0;  // of all processes, in a step
};

Planned planned_of(const BenchForecastOptions& options, const Layout& layout) {
  JobOptions base{.file = options.job};
  config::Job job = read_job(base);
  for (const std::string& set : layout.sets) config::apply_set(job, set);
  const config::DatasetFacts facts = facts_without_text(job);
  return plan_job(std::move(job), layout.ranks, facts);
}

// By rank, as time_steps writes it.
Json run(const Planned& planned, const Place& place, const BenchForecastOptions& options) {
  const std::string result = job_in_memory("");
  std::vector<std::string> words = {"time-steps",
                                    "--job",
                                    job_in_memory(config::print_yaml(planned.job)),
                                    "--warmup",
                                    std::to_string(options.warmup),
                                    "--steps",
                                    std::to_string(options.steps),
                                    "--json",
                                    result};
  Place where{.launcher = Launcher::kProcesses, .address = {}};
  if (place.launcher == Launcher::kProcesses)
    where.world = place.world;
  else
    words.insert(words.end(), {"--ranks", std::to_string(place.world)});
  const elastic::Outcome outcome = run_workers(words, where);
  if (outcome.exit_code != 0)
    fail(ErrorKind::kPeerLost, "the steps ended with {}: {}", outcome.exit_code, outcome.cause);
  return parse_json(read_file(result), "the steps");
}

Result compare(const Layout& layout, const BenchForecastOptions& options) {
  const Planned planned = planned_of(options, layout);
  const Place place{.launcher = layout.processes ? Launcher::kProcesses : Launcher::kThreads,
                    .world = layout.ranks,
                    .local_world = layout.ranks,
                    .address = {}};
  const planner::StepForecast expected = expect(planned, place);
  if (expected.high_s <= 0) fail(ErrorKind::kUsage, "forecasts here are {}", expected.source);
  const Json ranks = run(planned, place, options);
  Result result{.name = layout.name, .low_s = expected.low_s, .high_s = expected.high_s};
  result.step = {.forecast = expected.step_s,
                 .measured = median(ranks[0]["seconds"].get<std::vector<double>>())};
  result.memory = {.forecast = expected.process_bytes,
                   .measured = ranks[0]["resident"].get<double>()};
  for (int rank = 0; rank < (layout.processes ? layout.ranks : 1); ++rank)
    result.cpu_s +=
        median(ranks[static_cast<std::size_t>(rank)]["cpu_s"].get<std::vector<double>>());
  return result;
}

void print(const Result& r) {
  fmt::print("{:<42} {:>8.1f} {:>8.1f} {:>+6.1f}% {:>9} {:>8.1f} {:>8.1f} {:>+6.1f}%  {:>8.1f}\n",
             r.name, 1e3 * r.step.forecast, 1e3 * r.step.measured, 100 * r.step.error(),
             r.step.measured >= r.low_s && r.step.measured <= r.high_s ? "inside" : "outside",
             r.memory.forecast / 1e6, r.memory.measured / 1e6, 100 * r.memory.error(),
             1e3 * r.cpu_s);
  std::fflush(stdout);
}

Json json_of(const Result& r) {
  return {{"layout", r.name},
          {"step_s", {{"forecast", r.step.forecast}, {"measured", r.step.measured}}},
          {"band_s", {r.low_s, r.high_s}},
          {"memory_bytes", {{"forecast", r.memory.forecast}, {"measured", r.memory.measured}}},
          {"cpu_s", r.cpu_s}};
}

void print_errors(const char* what, const std::vector<Result>& results, Apart Result::*of) {
  double sum = 0, most = 0, bias = 0;
  for (const Result& r : results) {
    sum += std::abs((r.*of).error());
    bias += (r.*of).error();
    most = std::max(most, std::abs((r.*of).error()));
  }
  const auto count = static_cast<double>(results.size());
  fmt::print("{}: {:.1f}% off on average, {:.1f}% at most, {:+.1f}% with sign\n", what,
             100 * sum / count, 100 * most, 100 * bias / count);
}

}  // namespace

int bench_forecast(const BenchForecastOptions& options) {
  check_output(options.json);
  worker_program();
  fmt::print(
      "{:<42} {:>26} {:>19} {:>17}  {:>8}\n{:<42} {:>8} {:>8} {:>7} {:>9} {:>8} {:>8} {:>7}\n", "",
      "ms a step", "MB of a process", "", "CPU ms", "layout", "forecast", "measured", "error",
      "band", "forecast", "measured", "error");
  std::vector<Result> results;
  Json report = Json::array();
  for (const Layout& layout : kLayouts) {
    if (std::string(layout.name).find(options.only) == std::string::npos) continue;
    results.push_back(compare(layout, options));
    print(results.back());
    report.push_back(json_of(results.back()));
  }
  if (results.empty())
    fail(ErrorKind::kUsage, "--only {}: no layout has this in its name", options.only);
  const auto inside = std::ranges::count_if(results, [](const Result& r) {
    return r.step.measured >= r.low_s && r.step.measured <= r.high_s;
  });
  print_errors("step time", results, &Result::step);
  print_errors("memory", results, &Result::memory);
  fmt::print("{} of {} steps inside the band of four of five\n", inside, results.size());
  if (!options.json.empty()) write_file_synced(options.json, report.dump(1) + "\n");
  return 0;
}

}  // namespace trireme::app
