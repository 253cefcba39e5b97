// trireme-worker bench-recompute: what each policy of recomputation costs and saves, in steps of a job.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/json_output.h"
#include "apps/worker/memory/memory.h"
#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/base/median.h"
#include "trireme/config/job.h"
#include "trireme/plan/compile/recompute.h"
#include "trireme/plan/memory.h"
#include "trireme/train/job_session.h"
#include "trireme/train/run/samples.h"
#include "trireme/train/watch/memory_meter.h"

namespace trireme::app {
namespace {

// Activations and what nodes hold while they run, of a point of the account.
std::int64_t activations(const plan::MemoryPoint& point) {
  return point[static_cast<std::size_t>(plan::MemoryKind::kActivations)] +
         point[static_cast<std::size_t>(plan::MemoryKind::kWork)];
}

// What one rank saw.
struct Seen {
  std::vector<double> seconds{};
  std::int64_t measured = 0;  // bytes at the peak, without what the account has of other kinds
  std::int64_t planned = 0;
  double loss = 0;
  std::string choice{};
};

Seen measure(const config::Job& job, comm::World& world, int warmup, int steps) {
  train::JobSession session(job, world);
  train::MemoryMeter meter(&charged_here(), session.device());
  const train::JobSession::Load load = train::load_of(job, job.run.micro_batch);
  Seen seen;
  for (int step = 0; step < warmup + steps; ++step) {
    const Stopwatch watch;
    meter.begin_step();
    seen.loss = session.train(step, false, load).loss;
    const std::int64_t peak = meter.end_step();
    if (step < warmup) continue;
    seen.seconds.push_back(watch.seconds());
    seen.measured = std::max(seen.measured, peak);
  }
  const plan::PlanSet& plan = session.session().plan();
  const plan::MemoryAccount account = plan::memory_account(plan, world.rank());
  const plan::MemoryPoint& peak = account.at_line[account.peak_line];
  seen.planned = activations(peak);
  seen.measured -= account.peak_of_tensors() - seen.planned;
  seen.choice = plan::recomputation_text(plan.program);
  return seen;
}

Json row(const std::string& policy, const Seen& seen, double base_s) {
  const double step_s = median(seen.seconds);
  return {{"policy", policy},
          {"choice", seen.choice},
          {"step_ms", 1e3 * step_s},
          {"overhead", step_s / base_s - 1},
          {"activations_bytes", seen.measured},
          {"planned_bytes", seen.planned},
          {"apart", static_cast<double>(seen.planned) / static_cast<double>(seen.measured) - 1},
          {"loss", seen.loss}};
}

void print_rows(const Json& rows) {
  fmt::print("{:<28} {:>10} {:>9} {:>14} {:>12} {:>8}  {}\n", "policy", "ms a step", "overhead",
             "activations MB", "by the plan", "apart", "recomputed");
  for (const Json& one : rows)
    fmt::print("{:<28} {:>10.1f} {:>+8.1f}% {:>14.1f} {:>12.1f} {:>+7.2f}%  {}\n",
               one["policy"].get<std::string>(), one["step_ms"].get<double>(),
               100 * one["overhead"].get<double>(), 1e-6 * one["activations_bytes"].get<double>(),
               1e-6 * one["planned_bytes"].get<double>(), 100 * one["apart"].get<double>(),
               one["choice"].get<std::string>());
}

}  // namespace

int bench_recompute(const Arguments& arguments) {
  const auto request = arguments.request<BenchStepRequest>();
  std::vector<config::Job> jobs;  // what all others are compared with is the first
  for (const BenchJob& one : request.jobs) jobs.push_back(config::parse_job(one.job, one.name));
  run_ranks_here(request.ranks, jobs.front(), [&](comm::World& world) {
    std::vector<Seen> seen(jobs.size());
    // Policy after policy and again, so that a slow minute of the machine is shared out.
    for (int round = 0; round < request.rounds; ++round)
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        Seen now = measure(jobs[i], world, request.warmup, request.steps);
        now.seconds.insert(now.seconds.end(), seen[i].seconds.begin(), seen[i].seconds.end());
        seen[i] = std::move(now);
      }
    if (world.rank() != 0) return;
    Json rows = Json::array();
    for (std::size_t i = 0; i < jobs.size(); ++i)
      rows.push_back(row(request.jobs[i].name, seen[i], median(seen[0].seconds)));
    print_rows(rows);
    write_json(request.json, rows);
  });
  return 0;
}

}  // namespace trireme::app
