// trireme bench: the worker measures and prints.
#include "../guard.h"
#include "commands.h"
#include "planned.h"
#include "trireme/base/error.h"
#include "workers.h"

namespace trireme::app {

int bench_collectives(const BenchCollectivesOptions& options) {
  std::string ranks;
  for (const int count : options.ranks)
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", count);
  std::vector<std::string> words = {"bench-collectives", "--ranks", ranks};
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
  become_worker(words, {});
}

int bench_kernels(const BenchKernelsOptions& options) {
  std::vector<std::string> words = {"bench-kernels", "--threads", std::to_string(options.threads)};
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
  become_worker(words, {});
}

int bench_step(const BenchStepOptions& options) {
  config::Job job = read_job(options.job);
  // No data is read. The vocabulary that the data would have told is known for bytes only.
  const std::int64_t vocabulary = job.data.tokenizer == "bytes" && job.model.vocab == 0 ? 256 : 0;
  const Place place = find_place(options.job.ranks, options.job.nproc);
  const Planned planned = plan_job(std::move(job), place.world, vocabulary);
  std::vector<std::string> words = {"bench-step",
                                    "--job",
                                    job_in_memory(config::print_yaml(planned.job)),
                                    "--warmup",
                                    std::to_string(options.warmup),
                                    "--steps",
                                    std::to_string(options.steps)};
  if (place.launcher == Launcher::kThreads)
    words.insert(words.end(), {"--ranks", std::to_string(place.world)});
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
  if (place.rank == 0) fmt::print("world     {}\n{}", describe(place), short_summary(planned));
  if (place.launcher != Launcher::kProcesses || place.world == 1) become_worker(words, place);
  const elastic::Outcome outcome = run_workers(words, place);
  if (!outcome.cause.empty()) print_error("worker", outcome.cause);
  return outcome.exit_code;
}

}  // namespace trireme::app
