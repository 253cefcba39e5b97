#include "trireme/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/ckpt/saver.h"
#include "trireme/config/resolve.h"
#include "trireme/config/saving.h"
#include "trireme/data/token_loader.h"
#include "trireme/formats/dataset.h"
#include "trireme/train/compare_replicas.h"
#include "trireme/train/forecast.h"
#include "trireme/train/job_session.h"
#include "trireme/train/machine.h"
#include "trireme/train/memory_meter.h"
#include "trireme/train/non_finite.h"
#include "trireme/train/step_trace.h"

namespace trireme::train {
namespace {

using Callbacks = std::vector<std::unique_ptr<Callback>>;

// Ranks that would train different things must not start.
void compare_ranks(comm::World& world, const TrainSetup& setup, const std::string& dataset_digest) {
  const std::vector<std::string> jobs = world.exchange(config::print_yaml(setup.job));
  const std::vector<std::string> facts = world.exchange(setup.build_id + " " + dataset_digest);
  for (std::size_t rank = 1; rank < jobs.size(); ++rank) {
    for (const config::Difference& key :
         config::diff(config::parse_job(jobs[0], "rank 0"), config::parse_job(jobs[rank], "rank")))
      fail(ErrorKind::kUsage, "rank {} has {} = {}, rank 0 has {}; start all ranks with one job",
           rank, key.key, key.after, key.before);
    if (facts[rank] != facts[0])
      fail(ErrorKind::kUsage,
           "rank {} has build and dataset {}, rank 0 has {}; use one build and one dataset", rank,
           facts[rank], facts[0]);
  }
}

// One rank's run. Its state between steps is the session, the step count and nothing else.
class Run {
 public:
  Run(const TrainSetup& setup, comm::World& world, const Callbacks& callbacks)
      : setup_(setup),
        job_(setup.job),
        world_(world),
        callbacks_(callbacks),
        dataset_(formats::open_dataset(setup.dataset)),
        steps_((compare_ranks(world, setup, dataset_.digest), job_), world, setup.out / "scratch"),
        session_(steps_.session()),
        train_(dataset_.train, job_.model.seq_len, job_.model.vocab,
               static_cast<std::uint64_t>(job_.data.seed), job_.data.documents),
        evaluation_(dataset_.val, job_.model.seq_len, job_.model.vocab, job_.data.documents),
        saver_({.root = setup.out / "checkpoints",
                .keep = {.last = job_.checkpoint.keep_last,
                         .every = job_.checkpoint.keep_every,
                         .best = job_.checkpoint.keep_best},
                .files = setup.files},
               session_.units(), session_.model().spec.units, world),
        memory_(setup.tensors, steps_.device()),
        peak_flops_(find_peak(job_.precision.compute, steps_.device(), world).flops) {}

  Ending operator()() {
    if (job_.checkpoint.trainable_only) base_ = ckpt::identity(job_.model.weights);
    resume();
    start();
    while (step_ < job_.run.steps) {
      const bool stop = train_step_or_save();
      const bool last = step_ == job_.run.steps;
      const bool saving = stop || last || due(job_.checkpoint.every);
      if (job_.run.compare_replicas > 0 && (saving || due(job_.run.compare_replicas))) compare();
      if (last || due(job_.run.eval_every)) evaluate();
      if (const auto saved = saver_.poll()) tell_saved(*saved);
      if (stop || last)
        save_last();
      else if (saving)
        save();
      if (stop && !last) return end(Ending::kInterrupted);
    }
    return end(Ending::kDone);
  }

 private:
  Path checkpoints() const { return setup_.out / "checkpoints"; }
  bool due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  template <typename Event>
  void tell(const Event& event) {
    for (const std::unique_ptr<Callback>& callback : callbacks_) event(*callback);
  }

  void resume() {
    const std::vector<arch::UnitSpec>& specs = session_.model().spec.units;
    if (setup_.resume.empty()) {
      if (job_.model.weights.empty()) return;
      ckpt::load_weights(job_.model.weights, session_.units(), specs);
      session_.units().refresh();
      return;
    }
    const formats::Manifest manifest =
        ckpt::load(setup_.resume, session_.units(), specs, job_.model.weights);
    if (manifest.dataset_digest != dataset_.digest)
      fail(ErrorKind::kData,
           "{}: was trained on dataset {}, {} is {}; point data.path to the same data",
           setup_.resume.string(), manifest.dataset_digest, setup_.dataset.string(),
           dataset_.digest);
    config::check_resumable(config::parse_job(manifest.job, setup_.resume.string()), job_);
    check_base(manifest);
    session_.units().refresh();
    step_ = manifest.step;
    steps_.restore(parse_train_state(manifest.train_state, step_, setup_.resume.string()));
    checkpoint_ = setup_.resume;
    std::error_code absent;
    if (std::filesystem::equivalent(setup_.resume.parent_path(), checkpoints(), absent))
      saver_.trust(step_);
  }

  // Checkpoints to come name model.weights as what they leave out: it must be what this run goes on with.
  void check_base(const formats::Manifest& manifest) const {
    if (!job_.checkpoint.trainable_only) return;
    if (manifest.base.empty())
      ckpt::check_frozen(job_.model.weights, session_.units(), session_.model().spec.units);
    else if (manifest.base != base_)
      fail(ErrorKind::kData,
           "{}: its run began with a checkpoint whose manifest has digest {}, {} has {}; set "
           "model.weights to that one",
           setup_.resume.string(), manifest.base, job_.model.weights, base_);
  }

  void start() {
    if (world_.rank() == 0) make_directories(checkpoints());
    if (job_.run.compare_replicas > 0 &&
        !has_replicas(session_.units(), session_.model().spec.units, world_))
      fail(ErrorKind::kUsage,
           "run.compare_replicas={}: no two ranks hold the same; leave it out, or replicate "
           "(parallel.dp_replicate, or zero=0)",
           job_.run.compare_replicas);
    RunInfo info = forecast(job_, session_.plan(), session_.model().spec, world_.rank(),
                            peak_flops_ / world_.size());
    info.out = setup_.out;
    info.first_step = step_;
    info.bytes_per_token = dataset_.val_info.tokens > 0
                               ? static_cast<double>(dataset_.val_info.text_bytes) /
                                     static_cast<double>(dataset_.val_info.tokens)
                               : 0;
    info.peak_flops = peak_flops_;
    info.offload = session_.away().describe();
    tell([&](Callback& callback) { callback.on_start(info); });
  }

  // A step that ends the run on all ranks alike does not take the checkpoint with it that is under way.
  bool train_step_or_save() {
    try {
      return train_step();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kNonFinite && saver_.under_way()) tell_saved(saver_.finish());
      throw;
    }
  }

  // Returns whether any rank was asked to stop.
  bool train_step() {
    Stopwatch watch;
    double data_wait_s = 0;
    const std::int64_t tokens = steps_.tokens_per_step();
    const double lr = steps_.learning_rate();
    const double loss_scale = steps_.loss_scale();
    const bool traced = step_ + 1 == job_.run.trace;
    std::vector<exec::LineTime> times;
    memory_.begin_step();
    const JobSession::Load load = [&](std::int64_t first_sample) {
      Stopwatch waiting;
      std::vector<at::Tensor> batch = train_.batch(first_sample, job_.run.micro_batch);
      data_wait_s += waiting.seconds();
      return batch;
    };
    const exec::StepResult result =
        steps_.train(step_, setup_.stop != nullptr && setup_.stop->load() != 0, load, nullptr,
                     traced ? &times : nullptr);
    const std::int64_t peak = memory_.end_step();
    ++step_;
    const double seconds = watch.seconds();
    if (traced)
      write_step_trace(setup_.out, session_.plan(), cost_model(peak_flops_ / world_.size()), times,
                       step_, world_);
    const double tokens_per_s = static_cast<double>(tokens) / seconds;
    tell([&](Callback& callback) {
      callback.on_step({.step = step_,
                        .loss = result.loss,
                        .grad_norm = result.grad_norm,
                        .lr = lr,
                        .loss_scale = loss_scale,
                        .skipped = result.skipped,
                        .tokens = step_ * tokens,
                        .tokens_per_s = tokens_per_s,
                        .step_ms = seconds * 1e3,
                        .mfu = tokens_per_s * session_.model().spec.flops_per_token / peak_flops_,
                        .rss_mb = resident_mb(),
                        .peak_mb = static_cast<double>(peak) / 1e6,
                        .comm_wait_ms = result.comm_wait_s * 1e3,
                        .data_wait_ms = data_wait_s * 1e3,
                        .offload_wait_ms = result.offload_wait_s * 1e3});
    });
    if (steps_.non_finite_in_a_row() > 0) pass_over(result, load, seconds);
    return result.flag;
  }

  // A step that was not finite and has changed nothing; as many in a row as the job allows end the run.
  void pass_over(const exec::StepResult& result, const JobSession::Load& load, double seconds) {
    const Stopwatch looking;
    const std::int64_t row = steps_.non_finite_in_a_row();
    const bool last = row >= job_.run.skip_non_finite;
    const NonFinite first = find_non_finite(steps_, step_ - 1, load, world_);
    formats::Event fault{
        .kind = "not finite",
        .rank = first.rank,
        .host = first.host,
        .step = step_,
        .op = "training",
        .cause = fmt::format("loss {}, gradient norm {}: {}", result.loss, result.grad_norm,
                             first.rank < 0
                                 ? "run again, everything is finite: a passing fault of the machine"
                                 : fmt::format("rank {} first: {}", first.rank, first.what)),
        .action = last ? "stop" : "skip"};
    fault.lost_s = seconds + looking.seconds();
    tell([&](Callback& callback) { callback.on_fault(fault); });
    if (last)
      fail(ErrorKind::kNonFinite,
           "step {}, {} in a row: {}; none of them changed a parameter; lower optim.lr, or check "
           "the data of these steps (run.skip_non_finite={})",
           step_, row, fault.cause, job_.run.skip_non_finite);
  }

  void compare() {
    const Stopwatch watch;
    const Apart apart = compare_replicas(session_.units(), session_.model().spec.units, world_);
    if (apart.ranks.empty()) return;
    formats::Event fault{.kind = "replicas differ",
                         .rank = apart.outvoted && apart.ranks.size() == 1 ? apart.ranks[0] : -1,
                         .step = step_,
                         .op = "comparison of replicas",
                         .cause = describe(apart),
                         .action = "stop"};
    fault.lost_s = watch.seconds();
    tell([&](Callback& callback) { callback.on_fault(fault); });
    if (saver_.under_way()) tell_saved(saver_.finish());
    fail(ErrorKind::kPeerLost,
         "after step {}: {}; memory has gone bad. Checkpoints were compared before they were "
         "written: run the command again to go on from the last, without that machine if this "
         "comes back",
         step_, fault.cause);
  }

  void evaluate() {
    if (job_.run.eval_every == 0) return;
    Stopwatch watch;
    const std::int64_t batch_size = job_.run.global_batch;
    std::int64_t batches = (evaluation_.samples() + batch_size - 1) / batch_size;
    if (job_.run.eval_batches > 0) batches = std::min(batches, job_.run.eval_batches);
    double loss_sum = 0;
    std::int64_t tokens = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const std::int64_t valid = evaluation_.valid_tokens(batch * batch_size, batch_size);
      loss_sum += steps_
                      .evaluate(step_, batch,
                                [&](std::int64_t first_sample) {
                                  return evaluation_.batch(first_sample, job_.run.micro_batch);
                                })
                      .loss;
      tokens += valid;
    }
    if (tokens == 0) return;
    const double loss = loss_sum / static_cast<double>(tokens);
    if (std::isfinite(loss)) {
      evaluated_ = step_;
      eval_loss_ = loss;
    }
    const double bytes_per_token = static_cast<double>(dataset_.val_info.text_bytes) /
                                   static_cast<double>(dataset_.val_info.tokens);
    tell([&](Callback& callback) {
      callback.on_eval(
          {.step = step_,
           .loss = loss,
           .bits_per_byte = bytes_per_token > 0 ? loss / std::log(2.0) / bytes_per_token : 0,
           .tokens = tokens,
           .seconds = watch.seconds()});
    });
  }

  ckpt::Header header() {
    return {.step = step_,
            .consumed_samples = step_ * job_.run.global_batch,
            .dataset_digest = dataset_.digest,
            .eval_loss = evaluated_ == step_ ? std::optional(eval_loss_) : std::nullopt,
            .job = config::print_yaml(job_),
            .train_state = print(steps_.state()),
            .build = setup_.build_id,
            .base = base_};
  }

  // One at a time: a disk that is slower than checkpoint.every gets fewer of them.
  void save() {
    if (saver_.under_way()) {
      ++skipped_;
      tell([&](Callback& callback) {
        callback.on_checkpoint({.step = step_,
                                .problem =
                                    "no checkpoint: the one before is still being written; raise "
                                    "checkpoint.every if this goes on"});
      });
      return;
    }
    const bool behind = config::saves_behind(job_);
    saver_.begin(header(), behind ? ckpt::SaveMode::kBehind : ckpt::SaveMode::kAtOnce);
    if (!behind) tell_saved(saver_.finish());
  }

  // Nothing comes after it to try again, and nothing to write it behind.
  void save_last() {
    if (saver_.under_way()) tell_saved(saver_.finish());
    saver_.begin(header(), ckpt::SaveMode::kAtOnce);
    const ckpt::Saved saved = saver_.finish();
    if (saved.path.empty()) fail(ErrorKind::kData, "{}; mend that and resume", saved.problem);
    tell_saved(saved);
  }

  void tell_saved(const ckpt::Saved& saved) {
    if (saved.path.empty())
      ++failed_;
    else
      checkpoint_ = saved.path;
    tell([&](Callback& callback) {
      callback.on_checkpoint({.step = saved.step,
                              .directory = saved.path,
                              .problem = saved.problem,
                              .seconds = saved.seconds,
                              .standing_s = saved.standing_s});
    });
  }

  Ending end(Ending ending) {
    std::vector<std::int64_t> measured;
    for (const std::string& text : world_.exchange(std::to_string(memory_.peaks().steps)))
      measured.push_back(std::stoll(text));
    std::map<std::string, io::Traffic> moved;
    for (const auto& [tier, traffic] : session_.away().traffic())
      moved[std::string(name(tier))] = traffic;
    tell([&](Callback& callback) {
      callback.on_end({.ending = ending,
                       .step = step_,
                       .measured_bytes = measured,
                       .offload = moved,
                       .checkpoint = checkpoint_,
                       .checkpoints_failed = failed_,
                       .checkpoints_skipped = skipped_});
    });
    return ending;
  }

  const TrainSetup& setup_;
  const config::Job& job_;
  comm::World& world_;
  const Callbacks& callbacks_;
  formats::Dataset dataset_;
  JobSession steps_;
  exec::Session& session_;
  data::TokenLoader train_;
  data::EvaluationLoader evaluation_;
  ckpt::Saver saver_;
  MemoryMeter memory_;
  double peak_flops_;
  std::int64_t step_ = 0;        // done
  std::int64_t evaluated_ = -1;  // the step that eval_loss_ is of
  double eval_loss_ = 0;
  Path checkpoint_;
  std::int64_t failed_ = 0, skipped_ = 0;  // checkpoints
  std::string base_;                       // of what checkpoints leave out
};

}  // namespace

Ending train(const TrainSetup& setup, comm::World& world, const Callbacks& callbacks) {
  return Run(setup, world, callbacks)();
}

}  // namespace trireme::train
