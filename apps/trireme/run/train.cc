// trireme train: everything is checked before anything is created; then the workers take over.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "apps/guard.h"
#include "apps/trireme/bench/calibration.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/data/data_record.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "baseline.h"
#include "before_training.h"
#include "islands.h"
#include "memory_trial.h"
#include "phases.h"
#include "trireme/base/error.h"
#include "trireme/base/ports.h"
#include "trireme/base/text.h"
#include "trireme/config/fields/help.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_conversations.h"
#include "trireme/job/runs/memory_fit.h"
#include "trireme/job/runs/outer_delay.h"
#include "trireme/job/runs/weights.h"
#include "trireme/launch/elastic/ranks.h"
#include "trireme/launch/faults/fault.h"
#include "trireme/plan/gradient_sums.h"

namespace trireme::app {
namespace {

// Layout keys may change when a run resumes; it says so.
void say_changes(const config::Job& saved, const config::Job& now) {
  for (const config::Difference& key : config::diff(saved, now))
    fmt::print("          {}: was {}, now {}\n", key.key, key.before, key.after);
}

// Vocabulary with which `generate` decodes; empty if samples are no text.
std::string vocabulary_of(const LocatedDataset& data, config::DataSource source) {
  if (const text::Tokenizer* vocabulary = data.vocabulary()) return vocabulary->description();
  return source == config::DataSource::kWords ? text::Tokenizer::bytes().description() : "";
}

void check_resume(const Resume& resume, const config::Job& job, const std::string& dataset_digest) {
  const std::string where = resume.checkpoint.string();
  config::check_resumable(
      config::parse_job(resume.manifest.job, where + "/" + formats::kManifestName), job);
  if (resume.manifest.dataset_digest != dataset_digest)
    fail(ErrorKind::kData,
         "{}: was trained on dataset {}, this job reads {}; point data.path to the same data, or "
         "start a new run with another --out",
         where, resume.manifest.dataset_digest, dataset_digest);
}

// A loss over few samples says little.
void warn_of_few_held_out(const LocatedDataset& data, const config::Job& job) {
  constexpr std::int64_t kFew = 100;
  const std::int64_t samples = held_out_samples(data, job);
  if (job.run.eval_every < 0 || samples == 0 || samples >= kFew) return;
  print_warning(fmt::format(
      "validation uses {} held-out sample{}: with fewer than {} its loss and accuracy "
      "vary widely by chance. Raise data.validation, a fraction or a number of samples, or add "
      "data",
      samples, samples == 1 ? "" : "s", kFew));
}

std::vector<std::string> notes_of(const Planned& planned, bool chosen) {
  std::vector<std::string> notes = config::notes(planned.job);
  if (chosen) notes.push_back(choice_of_precision(planned.job));
  if (const std::string sums = plan::gradient_sums_text(planned.plan); !sums.empty())
    notes.push_back(sums);
  return notes;
}

void say_start(const Planned& planned, const LocatedDataset& data, const RunDirectory& run,
               const Place& place, const std::vector<std::string>& notes,
               const std::string& weights, bool verbose) {
  fmt::print("run       {}\n", run.path().string());
  std::string text = fmt::format("data      {}\nworld     {}\n{}", data.what, describe(place),
                                 short_summary(planned, place));
  for (const std::string& note : notes) text += fmt::format("note      {}\n", note);
  constexpr std::size_t kColumns = 120, kIndent = 10;
  fmt::print("{}", wrapped(text, kColumns, kIndent));
  warn_of_few_held_out(data, planned.job);
  if (run.resume()) {
    fmt::print("resume    {} (step {}){}\n", run.resume()->checkpoint.string(),
               run.resume()->manifest.step,
               run.refused().empty()
                   ? ""
                   : "; newer checkpoints cannot be used: " + name_refused(run.refused()));
    say_changes(config::parse_job(run.resume()->manifest.job, "checkpoint"), planned.job);
  }
  if (!weights.empty()) fmt::print("weights   {}\n", weights);
  if (verbose) fmt::print("{}", config::print_yaml(planned.job));
}

int start(const std::vector<std::string>& arguments, const Place& place, const config::Run& keys,
          RunDirectory* run) {
  if (place.launcher != Launcher::kProcesses || place.world == 1) {
    if (run != nullptr) run->keep_lock_across_exec();
    // An agent knows from a rank that a signal ended that it had not begun.
    if (place.launcher != Launcher::kAgent) hold_stop_signals();
    check_limits(1, place.launcher == Launcher::kThreads ? place.world : 1);
    become_worker(arguments, place);
  }
  check_limits(place.world, 1);
  std::signal(SIGPIPE, SIG_IGN);  // the ranks continue when their output has no reader
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
  const IslandOptions& island = options.island;
  if (!island.leader.empty())
    append(arguments, {"--islands", island.leader, "--island", island.number});
  if (!island.token_file.empty()) append(arguments, {"--token-file", island.token_file});
  if (!island.replay_run.empty())
    append(arguments, {"--replay-run", island.replay_run, "--replay-last",
                       std::to_string(island.replay_last)});
  if (const Path peaks = peaks_path(); !peaks.empty())
    append(arguments, {"--peaks", peaks.string()});
  return arguments;
}

// By what the worker forecasts steps, as this program has.
void append_forecast(std::vector<std::string>& arguments, const FoundCalibration& found) {
  if (found.calibration)
    append(arguments, {"--calibration", found.file.string()});
  else
    append(arguments, {"--uncalibrated", found.missing});
}

void append_faults(std::vector<std::string>& arguments, const TrainOptions& options,
                   const Path& run) {
  if (!options.faults.empty())
    append(arguments,
           {"--faults", options.faults, "--fault-notes", (run / kFaultNotesName).string()});
}

// A launcher may start other numbers of ranks in later generations.
void check_ranks_of_faults(const TrainOptions& options, const Place& place) {
  using enum Launcher;
  if (place.launcher != kNone && place.launcher != kThreads && place.launcher != kProcesses) return;
  for (const faults::Fault& fault : faults::parse(options.faults))
    if (fault.rank && *fault.rank >= place.world)
      fail(ErrorKind::kUsage, "--faults: rank={} never runs; the last of {} is rank {}",
           *fault.rank, counted(place.world, "rank"), place.world - 1);
}

// Of this host's memory.
void say_too_small(const Planned& planned, const Place& place) {
  if (planned.job.checkpoint.memory_every == 0) return;
  if (const auto note = too_small(planned, place, std::getenv(elastic::kMemoryVariable)))
    fmt::print("note      {}\n", *note);
  std::fflush(stdout);
}

// A rank that another program started in addition to rank 0, which alone owns the run directory.
int follow(const TrainOptions& options, config::Job job, const Place& place) {
  const LocatedDataset data = locate_dataset(job.data, [](const std::string&) {});
  job = on_data(with_absolute_paths(std::move(job)), data);
  const Planned planned = plan_job(std::move(job), place.world, data.facts);
  const auto machine = find_calibration().calibration;
  if (const auto too_little = check_memory(planned, place, machine)) print_warning(*too_little);
  if (options.verify_data && place.local_rank == 0) digest_all_bytes(data);  // this host's copy
  std::vector<std::string> arguments = worker_arguments(options, place, data.directory);
  append(arguments, {"--job", job_in_memory(config::print_yaml(planned.job))});
  if (!options.faults.empty()) {
    if (options.out.empty())
      fail(ErrorKind::kUsage,
           "--faults needs --out: ranks record there which faults have happened, so that none "
           "happens twice");
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

void say_found(std::int64_t micro_batch, const std::string& what) {
  fmt::print("find      run.micro_batch={}: {}\n", micro_batch, what);
  std::fflush(stdout);
}

// A resumed run keeps the size that it has found.
config::Job settle_micro_batch(config::Job job, const RunDirectory& run, const Place& place,
                               const config::DatasetFacts& data) {
  if (!run.resume())
    return with_found_micro_batch(
        std::move(job), place, data, find_calibration().calibration,
        [&](const Planned& planned) { return try_memory(planned, place, run.path()); }, say_found);
  const config::Job saved = config::parse_job(run.resume()->manifest.job, "checkpoint");
  job.run.micro_batch = saved.run.micro_batch;
  job.run.find_micro_batch = false;
  return job;
}

// A resumed run keeps the delay of outer steps that it has found.
config::Job settle_delay(config::Job job, const RunDirectory& run, const Place& place,
                         const config::DatasetFacts& data) {
  if (!config::finds_delay(job.network)) return job;
  if (run.resume()) {
    const config::Job saved = config::parse_job(run.resume()->manifest.job, "checkpoint");
    if (const auto outer = config::outer_settings(saved.network); outer && outer->delay > 0)
      job.network.outer = config::with_delay(job.network, outer->delay);
    return job;
  }
  return with_found_delay(
      std::move(job), place.world, data,
      [&](const Planned& planned) { return expect(planned, place).step_s; },
      [](const std::string& text) { fmt::print("find      {}\n", text); });
}

config::Job with_precision_of(const Resume& resume, config::Job job) {
  job.precision.compute = config::parse_job(resume.manifest.job, "checkpoint").precision.compute;
  job.precision.compute_auto = false;
  return job;
}

std::string place_text(const Place& place) {
  if (place.launched() && place.local_world != place.world) return "";  // of several hosts
  const bool processes = place.launched() || place.launcher == Launcher::kProcesses;
  return fmt::format("{} {}\n", processes ? "nproc" : "ranks", place.world);
}

// Origin of a run that does not resume; empty for random parameters.
std::string beginning_of(const RunDirectory& run, const Planned& planned,
                         const LocatedDataset& data, const TrainOptions& options) {
  const Path weights = planned.job.model.weights;
  if (weights.empty() && planned.job.optim.from_weights)
    fail(ErrorKind::kUsage,
         "optim.from_weights=true, but model.weights is empty; set model.weights to the checkpoint "
         "whose optimizer states continue, or optim.from_weights=false");
  return run.resume() || weights.empty()
             ? ""
             : describe_weights(weights, planned, data, options.job.allow);
}

int lead(const TrainOptions& options, config::Job job, const Place& place) {
  RunDirectory run(options.out, job_name(options.job), options.resume, print_note,
                   job.checkpoint.memory_every > 0 ? formats::CheckpointCheck::kManifest
                                                   : formats::CheckpointCheck::kEveryByte);
  const auto say = [](const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
  };
  const LocatedDataset data = locate_dataset(job.data, say);
  job = on_data(with_absolute_paths(std::move(job)), data);
  if (job.precision.compute_auto && run.resume())  // as it has begun, on whatever CPU
    job = with_precision_of(*run.resume(), std::move(job));
  if (options.calibrate) calibrate_for(job, place);
  if (job.run.find_micro_batch) job = settle_micro_batch(std::move(job), run, place, data.facts);
  job = settle_delay(std::move(job), run, place, data.facts);
  config::place_reference(job, run.path());
  const bool chosen = job.precision.compute_auto;
  const Planned planned = plan_job(std::move(job), place.world, data.facts);
  const auto machine = find_calibration().calibration;
  const std::optional<std::string> too_little = check_memory(planned, place, machine);
  const std::string contents = options.verify_data ? digest_all_bytes(data) : "";
  if (run.resume()) {
    check_resume(*run.resume(), planned.job, data.digest);
    const std::string note = compare_data(run.path(), data, contents);
    if (!note.empty()) say("data      " + note);
    if (run.resume()->manifest.step >= planned.job.run.steps) {
      fmt::print(
          "{} is at step {} of {}: nothing is left to do. To continue, give --steps N with a "
          "later step; the learning rate follows optim.decay_steps\n",
          run.resume()->checkpoint.string(), run.resume()->manifest.step, planned.job.run.steps);
      return 0;
    }
  }
  const std::string beginning = beginning_of(run, planned, data, options);
  std::vector<std::string> arguments = worker_arguments(options, place, data.directory);
  if (options.baseline && (!data.text || data.text->train_loss))
    fail(ErrorKind::kUsage, "--baseline needs text, which data.source does not give; leave it out");
  if (data.quickstart || options.baseline)
    append(arguments, {"--baseline", fmt::format("{:.17g}", baseline_bits(*data.text, say))});
  check_port(place);
  worker_program();  // the last thing that can be missing
  run.prepare(planned.job, vocabulary_of(data, planned.job.data.source), place_text(place),
              text_of(host_need(planned, place, machine)));
  keep_data_record(run.path(), data, contents);
  say_start(planned, data, run, place, notes_of(planned, chosen), beginning, options.verbose);
  if (too_little) print_warning(*too_little);
  say_too_small(planned, place);
  append(arguments,
         {"--job", (run.path() / kLockedJobName).string(), "--out", run.path().string()});
  append(arguments, {"--data", data.what, "--command", options.command});
  if (run.resume()) append(arguments, {"--resume", run.resume()->checkpoint.string()});
  append_forecast(arguments, find_calibration(planned.job, place));
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

int train(const TrainOptions& given) {
  const TrainOptions options = of_its_run(given);
  if (options.help_config) {
    const std::string& key = *options.help_config;
    fmt::print("{}", key.empty() ? config::help_config() : config::help_of(key));
    return 0;
  }
  if (has_phases(options.job)) return train_phases(options);
  config::Job job = job_to_train(options);
  check_island(options.island, job);
  const Place place = find_place(options.job.ranks, options.job.nproc);
  check_ranks_of_faults(options, place);
  if (place.launcher != Launcher::kAgent) end_on_stop_signals();
  check_memory(job, place);
  // Refuses most mistakes before any text is tokenized.
  check_early(job, place);
  return place.launched() && place.rank != 0 ? follow(options, std::move(job), place)
                                             : lead(options, std::move(job), place);
}

}  // namespace trireme::app
