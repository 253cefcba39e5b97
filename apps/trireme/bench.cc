// trireme bench: the worker measures and prints.
#include "../guard.h"
#include "calibration.h"
#include "commands.h"
#include "environment.h"
#include "output.h"
#include "summary.h"
#include "trireme/base/error.h"
#include "trireme/plan/mesh/zigzag.h"
#include "trireme/plan/schedules/schedule.h"
#include "workers.h"

namespace trireme::app {

namespace {

template <typename Number>
std::string joined(const std::vector<Number>& numbers) {
  std::string list;
  for (const Number number : numbers) list += fmt::format("{}{}", list.empty() ? "" : ",", number);
  return list;
}

void add_json(std::vector<std::string>& words, const std::string& file) {
  check_output(file);
  if (!file.empty()) words.insert(words.end(), {"--json", file});
}

}  // namespace

int bench_collectives(const BenchCollectivesOptions& options) {
  std::vector<std::string> words = {"bench-collectives", "--ranks", joined(options.ranks)};
  add_json(words, options.json);
  return become_worker(words, {});
}

int bench_context(const BenchContextOptions& options) {
  const std::int64_t kv_heads = options.kv_heads == 0 ? options.heads : options.kv_heads;
  if (options.heads % kv_heads != 0)
    fail(ErrorKind::kUsage, "--heads {} is no multiple of --kv-heads {}; one that divides it works",
         options.heads, kv_heads);
  for (const int ranks : options.ranks)
    for (const std::int64_t tokens : options.tokens) mesh::zigzag_tokens(tokens, ranks);
  std::vector<std::string> words = {
      "bench-context",          "--ranks",    joined(options.ranks),           "--tokens",
      joined(options.tokens),   "--heads",    std::to_string(options.heads),   "--kv-heads",
      std::to_string(kv_heads), "--head-dim", std::to_string(options.head_dim)};
  add_json(words, options.json);
  return become_worker(words, {});
}

int bench_kernels(const BenchKernelsOptions& options) {
  std::vector<std::string> words = {"bench-kernels", "--threads", std::to_string(options.threads)};
  add_json(words, options.json);
  return become_worker(words, {});
}

int bench_memory(const BenchMemoryOptions& options) {
  std::vector<std::string> words = {"bench-memory", "--only", options.only, "--steps",
                                    std::to_string(options.steps)};
  add_json(words, options.json);
  return become_worker(words, {});
}

int bench_pipeline(const BenchPipelineOptions& options) {
  std::vector<std::string> names = options.schedules;
  if (names.empty())
    for (int i = 0; i < schedules::kScheduleCount; ++i)
      names.emplace_back(schedules::name(static_cast<schedules::Schedule>(i)));
  std::string list;
  for (const std::string& name : names) {
    const auto schedule = schedules::schedule_of(name);
    if (!schedule) fail(ErrorKind::kUsage, "--schedules {}: no such schedule", name);
    schedules::make_grid(*schedule, {.ranks = options.ranks,
                                     .chunks = schedules::chunks_of(*schedule, 0),
                                     .micro_batches = options.micro_batches});
    list += (list.empty() ? "" : ",") + name;
  }
  std::vector<std::string> words = {"bench-pipeline",
                                    "--ranks",
                                    std::to_string(options.ranks),
                                    "--micro-batches",
                                    std::to_string(options.micro_batches),
                                    "--ms",
                                    std::to_string(options.ms),
                                    "--steps",
                                    std::to_string(options.steps),
                                    "--schedules",
                                    list};
  add_json(words, options.json);
  return become_worker(words, {});
}

namespace {

// Steps of a job in the worker, under a subcommand with more words of its own.
int measure_steps(const char* subcommand, const BenchStepOptions& options,
                  const std::vector<std::string>& more) {
  config::Job job = read_job(options.job);
  if (!options.device.empty()) config::apply_set(job, "run.device=" + options.device);
  refuse_search(job, "bench");
  const config::DatasetFacts facts = facts_without_text(job);
  const Place place = find_place(options.job.ranks, options.job.nproc);
  check_early(job, place);
  const Planned planned = plan_job(std::move(job), place.world, facts);
  std::vector<std::string> words = {subcommand,
                                    "--job",
                                    job_in_memory(config::print_yaml(planned.job)),
                                    "--warmup",
                                    std::to_string(options.warmup),
                                    "--steps",
                                    std::to_string(options.steps)};
  words.insert(words.end(), more.begin(), more.end());
  if (const Path peaks = peaks_path(); !peaks.empty())
    words.insert(words.end(), {"--peaks", peaks.string()});
  if (place.launcher == Launcher::kThreads)
    words.insert(words.end(), {"--ranks", std::to_string(place.world)});
  add_json(words, options.json);
  if (place.rank == 0)
    fmt::print("world     {}\n{}", describe(place), short_summary(planned, place));
  if (place.launcher != Launcher::kProcesses || place.world == 1)
    return become_worker(words, place);
  const elastic::Outcome outcome = run_workers(words, place);
  if (!outcome.cause.empty()) print_error("worker", outcome.cause);
  return outcome.exit_code;
}

}  // namespace

int bench_recompute(const BenchRecomputeOptions& options) {
  return measure_steps("bench-recompute", options.step,
                       {"--rounds", std::to_string(options.rounds)});
}

int bench_step(const BenchStepOptions& options) { return measure_steps("bench-step", options, {}); }

}  // namespace trireme::app
