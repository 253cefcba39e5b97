// Memory of the jobs that published runs are, from their plans, and what rows report of it.
#include "bench/scoreboard/memory_runs.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/planner/cost/plan_memory.h"

namespace trireme::scoreboard {
namespace {

constexpr MemoryConstants kOnes{.holes = 1, .communicator = 1};

// As many micro-batches as show what the step needs of memory: more only repeat what is between the ends.
config::Job shortened(config::Job job) {
  const std::int64_t at_once = job.run.micro_batch * config::dp(job);
  job.run.global_batch = std::min(job.run.global_batch, 2 * job.parallel.pp * at_once);
  return job;
}

// The run's first setting, on a GPU. Checkpoints that keep the results of products have their nearest key.
config::Job gpu_job(const Candidate& candidate, int gpus) {
  config::Job job = candidate.job();
  job.run.device = config::Device::kCuda;
  if (candidate.practice().keeps_operators) {
    job.recompute.policy = RecomputePolicy::kSelective;
    job.recompute.parts = "norms";
  }
  return config::resolve(std::move(job), gpus, {});
}

MemoryRun memory_run(const Run& run, double capacity, bool expandable) {
  MemoryRun one{
      .row = run.row, .group = run.group, .line = run.lines.front(), .capacity = capacity};
  if (run.candidates.empty())
    one.unscored = run.unscored;
  else
    one.memory = memory_of(gpu_job(run.candidates.front(), run.gpus), expandable);
  return one;
}

double titan_device(const std::string& hardware) {
  const auto has = [&](const char* part) { return hardware.find(part) != std::string::npos; };
  if (has("H200")) return device_bytes(141);
  return device_bytes(!has("A100") && (has("95GB") || has("96GB")) ? 96 : 80);
}

}  // namespace

double device_bytes(int gigabytes) {
  constexpr double kMiB = 1 << 20;
  switch (gigabytes) {
    case 32: return 32510 * kMiB;  // V100
    case 40: return 40536 * kMiB;  // A100
    case 80: return 81251 * kMiB;  // A100
    case 81: return 81559 * kMiB;  // H100, sold as 80
    case 96: return 97871 * kMiB;
    case 141: return 143771 * kMiB;
    default: fail(ErrorKind::kUsage, "no device of {} GB is known here", gigabytes);
  }
}

PlanMemory memory_of(const config::Job& job, bool expandable) {
  const plan::PlanSet plan = Candidate(shortened(job), {}).plan();
  PlanMemory memory;
  for (std::size_t list = 0; list < plan.lists.size(); ++list) {
    const auto rank = std::ranges::find(plan.list_of_rank, static_cast<int>(list));
    memory.push_back(
        plan_memory(plan, static_cast<int>(rank - plan.list_of_rank.begin()), expandable, kOnes));
  }
  return memory;
}

std::vector<MemoryRun> bloom_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (const Run& run : bloom_runs(csv)) {
    const std::size_t row = runs.size();
    MemoryRun one = memory_run(run, device_bytes(80), false);
    one.ran = csv.need(row, "oom") == 0;
    if (const auto memory = csv.number(row, "mem"); memory && one.ran && one.unscored.empty()) {
      one.view = View::kDevice;
      one.measured = *memory;
    } else if (one.ran && one.unscored.empty() && !csv.number(row, "sec_per_iter")) {
      one.unscored = "no outcome";
    }
    runs.push_back(std::move(one));
  }
  return runs;
}

std::vector<MemoryRun> bigscience_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (const Run& run : v100_runs(csv)) {
    MemoryRun one = memory_run(run, device_bytes(32), false);
    one.ran = csv.need(runs.size(), "oom") == 0;
    runs.push_back(std::move(one));
  }
  return runs;
}

std::vector<MemoryRun> torchtitan_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (const Run& run : torchtitan_runs(csv)) {
    const std::size_t row = runs.size();
    const std::string& memory = csv.text(row, "memory_GiB");
    MemoryRun one = memory_run(run, titan_device(csv.text(row, "hardware")), true);
    one.ran = memory != "OOM" && csv.text(row, "tokens_s_gpu") != "OOM";
    if (one.ran && one.unscored.empty() && !memory.empty()) {
      one.view = View::kAllocator;
      one.measured = csv.need(row, "memory_GiB");
    }
    runs.push_back(std::move(one));
  }
  return runs;
}

std::vector<MemoryRun> mosaicml_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (const Run& run : mosaicml_runs(csv)) {
    const int gigabytes = mosaic_gpu(csv, runs.size()).gigabytes;
    runs.push_back(memory_run(run, device_bytes(gigabytes), false));
  }
  return runs;
}

}  // namespace trireme::scoreboard
