// trireme train: everything is checked before anything is created; then the workers take over.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "../guard.h"
#include "baseline.h"
#include "calibration.h"
#include "commands.h"
#include "dataset.h"
#include "phases.h"
#include "place.h"
#include "planned.h"
#include "room.h"
#include "run_directory.h"
#include "trireme/base/error.h"
#include "trireme/base/ports.h"
#include "trireme/config/resolve.h"
#include "trireme/elastic/ranks.h"
#include "trireme/faults/fault.h"
#include "weights.h"
#include "workers.h"

namespace trireme::app {
namespace {

// Layout keys may change when a run resumes; it says so.
void say_changes(const config::Job& saved, const config::Job& now) {
  for (const config::Difference& key : config::diff(saved, now))
    fmt::print("          {}: was {}, now {}\n", key.key, key.before, key.after);
}

// What `generate` decodes with; empty where samples are no text.
std::string vocabulary_of(const LocatedDataset& data, config::DataSource source) {
  if (data.text) return data.text->tokenizer.description();
  return source == config::DataSource::kWords ? formats::Tokenizer::bytes().description() : "";
}

void check_resume(const Resume& resume, const config::Job& job, const std::string& dataset_digest) {
  const std::string where = resume.checkpoint.string();
  config::check_resumable(
      config::parse_job(resume.manifest.job, where + "/" + formats::kManifestName), job);
  if (resume.manifest.dataset_digest != dataset_digest)
    fail(ErrorKind::kData,
         "{}: was trained on dataset {}, this job reads {}; point data.path to the same data, or "
         "start "
         "anew with another --out",
         where, resume.manifest.dataset_digest, dataset_digest);
}

void say_start(const Planned& planned, const LocatedDataset& data, const RunDirectory& run,
               const Place& place, const std::string& weights, bool verbose) {
  fmt::print("run       {}\n", run.path().string());
  fmt::print("data      {}\n", data.what);
  fmt::print("world     {}\n{}", describe(place), short_summary(planned, place));
  for (const std::string& note : config::notes(planned.job)) fmt::print("note      {}\n", note);
  for (const formats::CheckpointEntry& entry : run.refused())
    fmt::print("resume    passed over {}: {}\n", entry.path.string(), entry.problem);
  if (run.resume()) {
    fmt::print("resume    {} (step {})\n", run.resume()->checkpoint.string(),
               run.resume()->manifest.step);
    say_changes(config::parse_job(run.resume()->manifest.job, "checkpoint"), planned.job);
  }
  if (!weights.empty()) fmt::print("weights   {}\n", weights);
  if (verbose) fmt::print("{}", config::print_yaml(planned.job));
}

int start(const std::vector<std::string>& arguments, const Place& place, const config::Run& keys,
          RunDirectory* run) {
  if (place.launcher != Launcher::kProcesses || place.world == 1) {
    if (run != nullptr) run->keep_lock_across_exec();
    return become_worker(arguments, place);
  }
  return report_outcome(run_workers(arguments, place, keys, run->path()), run->path());
}

void append(std::vector<std::string>& arguments, std::initializer_list<std::string> more) {
  arguments.insert(arguments.end(), more);
}

std::vector<std::string> worker_arguments(const TrainOptions& options, const Place& place,
                                          const Path& dataset) {
  std::vector<std::string> arguments = {"train"};
  if (!dataset.empty()) append(arguments, {"--dataset", dataset.string()});
  if (place.launcher == Launcher::kThreads)
    arguments.insert(arguments.end(), {"--ranks", std::to_string(place.world)});
  if (options.quiet) arguments.push_back("--quiet");
  return arguments;
}

void append_faults(std::vector<std::string>& arguments, const TrainOptions& options,
                   const Path& run) {
  if (!options.faults.empty())
    append(arguments,
           {"--faults", options.faults, "--fault-notes", (run / kFaultNotesName).string()});
}

// Of this host's memory.
void say_too_small(const Planned& planned, const Place& place) {
  if (planned.job.checkpoint.memory_every == 0) return;
  if (const auto note = too_small(planned, place, std::getenv(elastic::kMemoryVariable)))
    fmt::print("note      {}\n", *note);
  std::fflush(stdout);
}

// A rank that another program started beside rank 0, which alone owns the run directory.
int follow(const TrainOptions& options, config::Job job, const Place& place) {
  const LocatedDataset data = locate_dataset(job.data, [](const std::string&) {});
  job.data.tokenizer = data.tokenizer;
  const Planned planned = plan_job(std::move(job), place.world, data.facts);
  check_room(planned, place);
  std::vector<std::string> arguments = worker_arguments(options, place, data.directory);
  append(arguments, {"--job", job_in_memory(config::print_yaml(planned.job))});
  if (!options.faults.empty()) {
    if (options.out.empty())
      fail(ErrorKind::kUsage,
           "--faults needs --out: all ranks note there what has happened, so that it does not "
           "again");
    make_directories(options.out);  // rank 0 may come later
  }
  append_faults(arguments, options, options.out);
  if (place.local_rank == 0) say_too_small(planned, place);
  return start(arguments, place, planned.job.run, nullptr);
}

// Rank 0 hosts the store, unless torchrun does.
void check_port(const Place& place) {
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool hosted = agent != nullptr && std::string(agent) == "True";
  if (place.launched() && place.launcher != Launcher::kAgent && place.world > 1 && !hosted &&
      !can_listen(place.port))
    fail(ErrorKind::kUsage,
         "port {} is in use and rank 0 must listen there; set MASTER_PORT to another", place.port);
}

void check_memory(const config::Job& job, const Place& place) {
  const bool kept = std::getenv(elastic::kMemoryVariable) && place.launcher == Launcher::kAgent;
  if (job.checkpoint.memory_every > 0 && !kept)
    fail(ErrorKind::kUsage,
         "checkpoint.memory_every={} on {}: memory that outlives ranks needs an agent that stays; "
         "start the job by trireme launch, or set checkpoint.memory_every=0",
         job.checkpoint.memory_every, describe(place));
}

// A run goes on with the one it has found.
config::Job settle_micro_batch(config::Job job, const RunDirectory& run, const Place& place,
                               const config::DatasetFacts& data) {
  if (!run.resume()) return with_found_micro_batch(std::move(job), place, data, run.path());
  const config::Job saved = config::parse_job(run.resume()->manifest.job, "checkpoint");
  job.run.micro_batch = saved.run.micro_batch;
  job.run.find_micro_batch = false;
  return job;
}

int lead(const TrainOptions& options, config::Job job, const Place& place) {
  RunDirectory run(options.out, job_name(options.job), options.resume,
                   job.checkpoint.memory_every > 0 ? formats::CheckpointCheck::kManifest
                                                   : formats::CheckpointCheck::kEveryByte);
  const auto say = [](const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
  };
  const LocatedDataset data = locate_dataset(job.data, say);
  job.data.tokenizer = data.tokenizer;
  if (job.run.find_micro_batch) job = settle_micro_batch(std::move(job), run, place, data.facts);
  const Planned planned = plan_job(std::move(job), place.world, data.facts);
  check_room(planned, place);
  if (run.resume()) {
    check_resume(*run.resume(), planned.job, data.digest);
    if (run.resume()->manifest.step >= planned.job.run.steps) {
      fmt::print("{} is at step {} of {}: nothing is left to do; raise run.steps to train on\n",
                 run.resume()->checkpoint.string(), run.resume()->manifest.step,
                 planned.job.run.steps);
      return 0;
    }
  }
  const Path weights = planned.job.model.weights;
  const std::string beginning = run.resume() || weights.empty()
                                    ? ""
                                    : describe_weights(weights, planned, data, options.job.allow);
  std::vector<std::string> arguments = worker_arguments(options, place, data.directory);
  if (options.baseline && !data.text)
    fail(ErrorKind::kUsage, "--baseline is of text, and data.source is none; leave it out");
  if (data.quickstart || options.baseline)
    append(arguments, {"--baseline", fmt::format("{:.17g}", baseline_bits(*data.text, say))});
  check_port(place);
  worker_program();  // the last thing that can be missing
  run.prepare(planned.job, vocabulary_of(data, planned.job.data.source));
  say_start(planned, data, run, place, beginning, options.verbose);
  say_too_small(planned, place);
  append(arguments,
         {"--job", (run.path() / kLockedJobName).string(), "--out", run.path().string()});
  if (run.resume()) append(arguments, {"--resume", run.resume()->checkpoint.string()});
  const bool one_host = !place.launched() || place.local_world == place.world;
  if (one_host && find_calibration(planned.job).calibration)
    append(arguments, {"--calibration", calibration_path().string()});
  append_faults(arguments, options, run.path());
  return start(arguments, place, planned.job.run, &run);
}

}  // namespace

void check_faults(const TrainOptions& options) {
  if (!options.faults.empty() && !options.allow_faults)
    fail(
        ErrorKind::kUsage,
        "--faults makes this run fail on purpose; give --allow-fault-injection too if you mean it");
  faults::parse(options.faults);
}

int train(const TrainOptions& options) {
  if (options.help_config) {
    fmt::print("{}", config::help_config());
    return 0;
  }
  if (has_phases(options.job)) return train_phases(options);
  config::Job job = read_job(options.job, options.out);
  if (!job.model.weights.empty())
    job.model.weights = settled_weights(job.model.weights, options.out,
                                        options.resume != "auto" && options.resume != "never")
                            .string();
  if (options.steps) {
    // Stopping early and resuming must walk one schedule: it stays the job's.
    if (job.optim.decay_steps == 0) job.optim.decay_steps = job.run.steps;
    config::apply_set(job, fmt::format("run.steps={}", *options.steps));
  }
  const Place place = find_place(options.job.ranks, options.job.nproc);
  check_memory(job, place);
  // Refuses most mistakes before any text is tokenized.
  check_early(job, place);
  return place.launched() && place.rank != 0 ? follow(options, std::move(job), place)
                                             : lead(options, std::move(job), place);
}

}  // namespace trireme::app
