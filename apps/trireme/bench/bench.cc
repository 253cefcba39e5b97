// trireme bench: the worker measures and prints.
#include "apps/guard.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "bench_commands.h"
#include "calibration.h"
#include "trireme/base/error.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/job/runs/sweep.h"
#include "trireme/plan/mesh/token_layout.h"
#include "trireme/plan/schedules/schedule.h"
#include "variants.h"

namespace trireme::app {
namespace {

template <typename Request>
std::vector<std::string> words_of(const char* subcommand, const Request& request) {
  return {subcommand, "--request", job_in_memory(nlohmann::json(request).dump())};
}

template <typename Options>
int ask(const char* subcommand, const Options& options) {
  check_output(options.json);
  become_worker(words_of(subcommand, options), {});
}

}  // namespace

int bench_collectives(const BenchCollectivesOptions& options) {
  return ask("bench-collectives", options);
}

int bench_context(const BenchContextOptions& given) {
  BenchContextOptions options = given;
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.heads % options.kv_heads != 0)
    fail(ErrorKind::kUsage,
         "--heads {} is not a multiple of --kv-heads {}; one that divides it works", options.heads,
         options.kv_heads);
  for (const int ranks : options.ranks)
    for (const std::int64_t tokens : options.tokens) mesh::zigzag(tokens, ranks);
  return ask("bench-context", options);
}

int bench_kernels(const BenchKernelsOptions& options) { return ask("bench-kernels", options); }

int bench_memory(const BenchMemoryOptions& options) {
  constexpr std::int64_t kMicroBatches = 4;  // of a rank and step
  std::vector<std::string> sweeps = options.variants;
  if (sweeps.empty())
    for (const char* size : {"gpt_tiny", "llama_tiny", "gpt_s", "llama_s", "gpt_30m", "gpt_m"})
      sweeps.push_back(fmt::format("recipes/sweeps/memory_{}.yaml", size));
  BenchMemoryRequest request{.steps = options.steps, .json = options.json};
  for (const std::string& sweep : sweeps)
    for (Variant& variant : variants(sweep, {})) {
      const std::string name = fmt::format("{} {}", Path(sweep).stem().string(), variant.name);
      if (name.find(options.only) == std::string::npos) continue;
      config::Job& job = variant.job;
      const config::Parallel& spread = job.parallel;
      const int world = variant.place.world;
      job.run.global_batch =
          kMicroBatches * job.run.micro_batch * world / (spread.tp * spread.cp * spread.pp);
      request.jobs.push_back({name, world, config::print_yaml(config::resolve(job, world, {}))});
    }
  if (request.jobs.empty())
    fail(ErrorKind::kUsage, "--only {}: no run has this in its name", options.only);
  return ask("bench-memory", request);
}

int bench_pipeline(const BenchPipelineOptions& given) {
  BenchPipelineOptions options = given;
  if (options.schedules.empty())
    for (int i = 0; i < schedules::kScheduleCount; ++i)
      options.schedules.emplace_back(schedules::name(static_cast<schedules::Schedule>(i)));
  for (const std::string& name : options.schedules) {
    const auto schedule = schedules::schedule_of(name);
    if (!schedule) fail(ErrorKind::kUsage, "--schedules {}: no such schedule", name);
    schedules::make_grid(*schedule, {.ranks = options.ranks,
                                     .chunks = schedules::chunks_of(*schedule, 0),
                                     .micro_batches = options.micro_batches});
  }
  return ask("bench-pipeline", options);
}

namespace {

config::Job job_of(const BenchStepOptions& options) {
  config::Job job = read_job(options.job);
  if (!options.device.empty()) config::apply_set(job, "run.device=" + options.device);
  refuse_search(job, "bench");
  return job;
}

// Steps of a job, or of `jobs` in its place, in the worker.
int measure_steps(const char* subcommand, const BenchStepOptions& options, config::Job job,
                  const Place& place, BenchStepRequest request) {
  check_output(options.json);
  const config::DatasetFacts facts = facts_without_text(job);
  check_early(job, place);
  const Planned planned = plan_job(std::move(job), place.world, facts);
  if (request.jobs.empty()) request.jobs = {{"", 1, config::print_yaml(planned.job)}};
  request.steps = options.steps;
  request.warmup = options.warmup;
  request.peaks = peaks_path().string();
  request.ranks = place.launcher == Launcher::kThreads ? place.world : 1;
  request.json = options.json;
  if (place.rank == 0)
    fmt::print("world     {}\n{}", describe(place), short_summary(planned, place));
  const std::vector<std::string> words = words_of(subcommand, request);
  if (place.launcher != Launcher::kProcesses || place.world == 1) become_worker(words, place);
  const elastic::Outcome outcome = run_workers(words, place);
  if (!outcome.cause.empty()) print_error("worker", outcome.cause);
  return outcome.exit_code;
}

}  // namespace

int bench_recompute(const BenchRecomputeOptions& options) {
  const config::Job job = job_of(options.step);
  const Place place = find_place(options.step.job.ranks, options.step.job.nproc);
  BenchStepRequest request{.rounds = options.rounds};
  for (const runs::SweepRun& run : runs::load_sweep(options.variants).runs) {
    config::Job one = job;
    one.recompute = {};
    one.recompute.logits = job.recompute.logits;
    for (const std::string& assignment : run.assignments) config::apply_set(one, assignment);
    one = config::resolve(std::move(one), place.world, facts_without_text(job));
    request.jobs.push_back(
        {job.recompute.logits ? run.name + ", logits" : run.name, 1, config::print_yaml(one)});
  }
  return measure_steps("bench-recompute", options.step, job, place, std::move(request));
}

int bench_step(const BenchStepOptions& options) {
  return measure_steps("bench-step", options, job_of(options),
                       find_place(options.job.ranks, options.job.nproc), {});
}

}  // namespace trireme::app
