#include "trireme/train/run/run_checkpoints.h"

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/checkpoint/on_rank_zero.h"
#include "trireme/config/optimizers.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/saving.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::train {
namespace {

TrainState state_of(const formats::Manifest& manifest, const Path& directory) {
  return parse_train_state(manifest.train_state, manifest.step, directory.string());
}

}  // namespace

RunCheckpoints::RunCheckpoints(const TrainSetup& setup, const loaders::Sources& data,
                               JobSession& steps, comm::World& world, const Callbacks& callbacks)
    : setup_(setup),
      job_(setup.job),
      data_(data),
      job_session_(steps),
      units_(steps.session().units()),
      specs_(steps.session().model().spec.units),
      world_(world),
      callbacks_(callbacks),
      saver_({.root = root(),
              .keep = {.last = job_.checkpoint.keep_last,
                       .every = job_.checkpoint.keep_every,
                       .best = job_.checkpoint.keep_best},
              .files = setup.files,
              .before = [&] { notify(callbacks, &Callback::before_checkpoint); }},
             units_, specs_, world) {
  if (job_.checkpoint.memory_every > 0) memory_.emplace(setup, units_, specs_, world, callbacks);
}

std::int64_t RunCheckpoints::begin() {
  if (job_.checkpoint.trainable_only) base_ = checkpoint::identity(job_.model.weights);
  std::int64_t steps = 0;
  const Path directory = memory_ ? newest_anywhere() : setup_.resume;
  if (!directory.empty()) {
    const formats::Manifest manifest =
        load(directory, from_memory() ? checkpoint::Files::kNeeded : checkpoint::Files::kAll);
    job_session_.restore(state_of(manifest, directory));
    steps = manifest.step;
  } else if (job_.optim.from_weights) {
    continue_weights();
  } else {
    job_session_.begin_with_weights();
  }
  if (from_memory()) newest_ = setup_.resume;  // a checkpoint reported as saved is on a disk
  if (memory_) memory_->keep_only(from_memory() ? steps : -1);
  if (world_.rank() == 0) {
    make_directories(root());
    formats::remove_drafts(*setup_.files, root());  // of histories that this run does not continue
  }
  return steps;
}

void RunCheckpoints::continue_weights() {
  const Path& directory = job_.model.weights;
  if (directory.empty() || convert::is_hugging_face(directory))
    fail(ErrorKind::kUsage,
         "optim.from_weights=true: model.weights={} holds no optimizer states; set it to a "
         "checkpoint or a run directory of trireme, or set optim.from_weights=false",
         directory.string());
  try {
    const std::string kept = convert::manifest_of_weights(directory).job;
    const config::Job other = config::parse_job(kept, directory.string());
    if (other.optim.name != job_.optim.name)
      fail(ErrorKind::kUsage, "the states of {} are those of optim.name={}, and this job has {}",
           directory.string(), config::info(other.optim.name).key,
           config::info(job_.optim.name).key);
    const formats::Manifest manifest = checkpoint::load(directory, units_, specs_);
    const bool same = manifest.dataset_digest == data_.digest && other.data.seed == job_.data.seed;
    job_session_.continue_after(state_of(manifest, directory), manifest.step,
                                same ? manifest.consumed_samples : 0);
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("optim.from_weights=true: {}; or set optim.from_weights=false, and "
                            "begin with its parameters alone",
                            error.what()));
  }
  units_.refresh();
}

// A checkpoint on disk is read only where memory has no use: until then its manifest is all that is known of it.
Path RunCheckpoints::newest_anywhere() {
  if (!setup_.resume.empty()) on_disk_ = formats::read_manifest(setup_.resume).step;
  found_ = memory_->find(on_disk_);
  for (const std::string& why : found_.refused)
    refused_.push_back({.kind = "snapshot refused", .op = "resume", .cause = why});
  if (from_memory() || setup_.resume.empty()) return found_.directory;
  const Path directory = checkpoint::on_rank_zero(world_, [&] {
    const auto newest = formats::newest_checkpoint(
        setup_.resume.parent_path(), formats::CheckpointCheck::kEveryByte, *setup_.files, on_disk_);
    for (const formats::CheckpointEntry& entry : newest->refused)
      refused_.push_back({.kind = "checkpoint refused", .op = "resume", .cause = entry.problem});
    return newest->path.string();
  });
  on_disk_ = formats::read_manifest(directory).step;
  return directory;
}

std::string RunCheckpoints::resumed() const {
  if (!from_memory()) return other_senders_;
  return fmt::format("step {} from memory, {} steps after {}", found_.step, found_.step - on_disk_,
                     on_disk_ == 0 ? "the beginning" : "the newest checkpoint");
}

void RunCheckpoints::report_refused() {
  for (formats::Event& refused : refused_) {
    refused.step = from_memory() ? found_.step : on_disk_;
    refused.action = fmt::format("continue from step {} {}", refused.step,
                                 from_memory() ? "in memory" : "on disk");
    notify(callbacks_, [&](Callback& callback) { callback.on_fault(refused); });
  }
}

void RunCheckpoints::snapshot(std::int64_t step) {
  world_.flight().enter(watch::Phase::kCheckpoint, step);
  memory_->take(header(step, std::nullopt));
}

formats::Manifest RunCheckpoints::load(const Path& directory, checkpoint::Files files) {
  const formats::Manifest manifest =
      checkpoint::load(directory, units_, specs_, job_.model.weights, files);
  if (manifest.dataset_digest != data_.digest)
    fail(ErrorKind::kData,
         "{}: was trained on dataset {}, {} is {}; point data.path to the same data",
         directory.string(), manifest.dataset_digest, setup_.dataset.string(), data_.digest);
  const config::Job saved = config::parse_job(manifest.job, directory.string());
  config::check_resumable(saved, job_);
  check_base(manifest, directory);
  if (const int before = config::residuals(saved), now = config::residuals(job_);
      before != now && before > 0)
    other_senders_ = fmt::format(
        "residuals of {} senders go to {}: their total is kept, other bits follow", before, now);
  units_.refresh();
  newest_ = directory;
  std::error_code absent;
  if (std::filesystem::equivalent(directory.parent_path(), root(), absent))
    saver_.trust(manifest.step);
  return manifest;
}

std::optional<RunCheckpoints::Rewind> RunCheckpoints::rewind(const Spike& spike,
                                                             std::int64_t last) {
  world_.flight().enter(watch::Phase::kCheckpoint, spike.step);
  finish();
  std::vector<formats::CheckpointEntry> unusable;  // on rank 0, which has the callbacks
  const Path directory = checkpoint::on_rank_zero(world_, [&] {
    try {
      auto found = formats::newest_checkpoint(root(), formats::CheckpointCheck::kEveryByte,
                                              *setup_.files, last);
      if (found) unusable = std::move(found->refused);
      return found ? found->path.string() : std::string();
    } catch (const Error&) {
      return std::string();  // there are some, all unusable
    }
  });
  if (directory.empty()) return std::nullopt;
  formats::Manifest manifest = load(directory);
  for (const formats::CheckpointEntry& entry : unusable)
    notify(callbacks_, [&](Callback& callback) {
      callback.on_fault({.kind = "checkpoint refused",
                         .step = manifest.step,
                         .op = "rewind",
                         .cause = entry.problem,
                         .action = fmt::format("rewind to step {}", manifest.step)});
    });
  Rewind rewind{.step = manifest.step};
  rewind.left_out = job_session_.rewind(state_of(manifest, directory), manifest.step, spike);
  manifest.train_state = print(job_session_.state());
  manifest.consumed_samples = job_session_.consumed_samples(manifest.step);
  // Before: what is in memory is newer, and of a history that is about to be left.
  if (memory_) memory_->keep_only(-1);
  saver_.go_back(manifest);
  rewind.lost_s = kept_s() - begun_[manifest.step];
  lost_s_ += rewind.lost_s;
  begun_.erase(begun_.upper_bound(manifest.step), begun_.end());
  return rewind;
}

// Later checkpoints name model.weights as their base: these must be the weights that this run continues with.
void RunCheckpoints::check_base(const formats::Manifest& manifest, const Path& directory) const {
  if (!job_.checkpoint.trainable_only) return;
  if (manifest.base.empty())
    checkpoint::check_frozen(job_.model.weights, units_, specs_);
  else if (manifest.base != base_)
    fail(ErrorKind::kData,
         "{}: its run began with a checkpoint whose manifest has digest {}, {} has {}; set "
         "model.weights to that one",
         directory.string(), manifest.base, job_.model.weights, base_);
}

checkpoint::Header RunCheckpoints::header(std::int64_t step,
                                          std::optional<double> eval_loss) const {
  return {.step = step,
          .consumed_samples = job_session_.consumed_samples(step),
          .dataset_digest = data_.digest,
          .vocabulary = data_.vocabulary,
          .eval_loss = eval_loss,
          .job = config::print_yaml(job_),
          .train_state = print(job_session_.state()),
          .build = setup_.build_id,
          .base = base_};
}

void RunCheckpoints::save(std::int64_t step, std::optional<double> eval_loss) {
  if (saver_.under_way()) {
    ++left_out_;
    notify(callbacks_, [&](Callback& callback) {
      callback.on_checkpoint({.step = step,
                              .problem = "no checkpoint: the previous one is still being written; "
                                         "raise checkpoint.every if this continues"});
    });
    return;
  }
  world_.flight().enter(watch::Phase::kCheckpoint, step);
  begun_[step] = kept_s();
  const bool async = config::saves_async(job_);
  saver_.begin(header(step, eval_loss),
               async ? checkpoint::SaveMode::kAsync : checkpoint::SaveMode::kAtOnce);
  if (!async) finish_on_disk();
}

void RunCheckpoints::save_last(std::int64_t step, std::optional<double> eval_loss) {
  world_.flight().enter(watch::Phase::kCheckpoint, step);
  finish_on_disk();
  saver_.begin(header(step, eval_loss), checkpoint::SaveMode::kAtOnce);
  const checkpoint::Saved saved = saver_.finish();
  if (memory_) memory_->finish();
  if (saved.path.empty()) fail(ErrorKind::kData, "{}; fix that and resume", saved.problem);
  report_saved(saved);
}

void RunCheckpoints::poll() {
  if (memory_) memory_->poll();
  if (const auto saved = saver_.poll()) report_saved(*saved);
}

void RunCheckpoints::finish() {
  if (memory_) memory_->finish();
  finish_on_disk();
}

void RunCheckpoints::finish_on_disk() {
  if (saver_.under_way()) report_saved(saver_.finish());
}

void RunCheckpoints::report_saved(const checkpoint::Saved& saved) {
  if (saved.path.empty())
    ++failed_;
  else
    newest_ = saved.path;
  notify(callbacks_, [&](Callback& callback) {
    callback.on_checkpoint({.step = saved.step,
                            .directory = saved.path,
                            .problem = saved.problem,
                            .seconds = saved.seconds,
                            .standing_s = saved.standing_s});
  });
}

}  // namespace trireme::train
