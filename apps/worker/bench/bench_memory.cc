// trireme-worker bench-memory: what jobs of many kinds need, as the plan says and as the allocator counts.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/json_output.h"
#include "apps/worker/memory/memory.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/base/text.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/train/run/memory_trial.h"

namespace trireme::app {
namespace {

constexpr double kTimeoutS = 600;

// By rank; ranks are threads.
std::vector<train::MemoryTrial> try_job(const BenchJob& one, int steps) {
  const config::Job job = config::parse_job(one.job, one.name);
  const Path scratch =
      std::filesystem::temp_directory_path() / fmt::format("trireme_bench_memory_{}", ::getpid());
  std::vector<train::MemoryTrial> ranks(static_cast<std::size_t>(one.ranks));
  comm::run_local_ranks(one.ranks, kTimeoutS, [&](comm::World& world) {
    const ChargeAnew charge;
    ranks[world.rank()] = train::try_memory(job, world, &charged_here(), steps, scratch);
  });
  return ranks;
}

double ratio(const train::MemoryTrial& rank) {
  return static_cast<double>(rank.forecast) / static_cast<double>(rank.measured.steps);
}

}  // namespace

int bench_memory(const Arguments& arguments) {
  const auto request = arguments.request<BenchMemoryRequest>();
  Json report = Json::array();
  fmt::print("{:<76} {:>5} {:>11} {:>11} {:>8}\n", "job", "ranks", "forecast", "measured", "apart");
  double worst = 0;
  for (const BenchJob& job : request.jobs) {
    const std::vector<train::MemoryTrial> ranks = try_job(job, request.steps);
    // The rank whose forecast is furthest off.
    const train::MemoryTrial& shown = *std::ranges::max_element(
        ranks, {}, [](const train::MemoryTrial& rank) { return std::abs(ratio(rank) - 1); });
    worst = std::max(worst, std::abs(ratio(shown) - 1));
    fmt::print("{:<76} {:>5} {:>11} {:>11} {:>+7.2f}%\n", job.name, job.ranks,
               bytes_text(static_cast<double>(shown.forecast)),
               bytes_text(static_cast<double>(shown.measured.steps)), 100 * (ratio(shown) - 1));
    std::fflush(stdout);
    Json one{{"job", job.name}, {"ranks", job.ranks}};
    for (const train::MemoryTrial& rank : ranks) {
      one["forecast_bytes"].push_back(rank.forecast);
      one["measured_bytes"].push_back(rank.measured.steps);
      one["measured_in_all_bytes"].push_back(rank.measured.all);
    }
    report.push_back(std::move(one));
  }
  fmt::print("{} jobs, forecasts within {:.2f}% of what was measured\n", report.size(),
             100 * worst);
  write_json(request.json, report);
  return 0;
}

}  // namespace trireme::app
