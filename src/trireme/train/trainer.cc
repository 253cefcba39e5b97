#include "trireme/train/trainer.h"

#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/host_name.h"
#include "trireme/config/families.h"
#include "trireme/config/paths.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/model/blocks/build.h"
#include "trireme/train/job_session.h"
#include "trireme/train/machine.h"
#include "trireme/train/metric_sums.h"
#include "trireme/train/run/bad_samples.h"
#include "trireme/train/run/run_checkpoints.h"
#include "trireme/train/run/run_health.h"
#include "trireme/train/run/validation.h"
#include "trireme/train/watch/forecast.h"
#include "trireme/train/watch/memory_meter.h"
#include "trireme/train/watch/step_trace.h"
#include "trireme/train/watch/wall_time.h"

namespace trireme::train {
namespace {

// A rank's job without the paths of its host.
config::Job comparable(const std::string& text) {
  config::Job job = config::parse_job(text, "the job of a rank");
  for (std::string* path : config::paths_of(job)) path->clear();
  return job;
}

// Ranks that would train different things must not start.
void compare_ranks(comm::World& world, const TrainSetup& setup, const std::string& dataset_digest) {
  const std::vector<std::string> jobs = world.exchange(config::print_yaml(setup.job));
  const std::vector<std::string> facts = world.exchange(setup.build_id + " " + dataset_digest);
  for (std::size_t rank = 1; rank < jobs.size(); ++rank) {
    for (const config::Difference& key : config::diff(comparable(jobs[0]), comparable(jobs[rank])))
      fail(ErrorKind::kUsage, "rank {} has {} = {}, rank 0 has {}; start all ranks with one job",
           rank, key.key, key.after, key.before);
    if (facts[rank] != facts[0])
      fail(ErrorKind::kUsage,
           "rank {} has build and dataset {}, rank 0 has {}; use one build and one dataset", rank,
           facts[rank], facts[0]);
  }
}

loaders::Sources sources_of(const TrainSetup& setup) {
  return setup.sources ? setup.sources(setup.job) : loaders::open_sources(setup.job, setup.dataset);
}

// Ranks are compared before they build together.
exec::Model model_of(const TrainSetup& setup, comm::World& world,
                     const std::string& dataset_digest) {
  compare_ranks(world, setup, dataset_digest);
  return setup.model ? setup.model(setup.job, world) : blocks::build(setup.job, world);
}

// One rank's run. Its state between steps is the session, the step count and nothing else.
class Run {
 public:
  Run(const TrainSetup& setup, comm::World& world, const Callbacks& callbacks)
      : setup_(setup),
        job_(setup.job),
        world_(world),
        callbacks_(callbacks),
        sources_(sources_of(setup)),
        job_session_(job_, world, model_of(setup, world, sources_.digest), setup.out / "scratch"),
        session_(job_session_.session()),
        validation_(job_, sources_, job_session_, callbacks),
        checkpoints_(setup_, sources_, job_session_, world, callbacks),
        bad_samples_(job_, sources_, session_.model(), world, callbacks),
        health_(job_, job_session_, checkpoints_, world, callbacks),
        memory_(setup.tensors, job_session_.device()),
        seen_peaks_(setup.peaks),
        peak_flops_(
            find_peak(job_.precision.compute, job_session_.device(), world, seen_peaks_).flops) {
    if (setup.island)
      islands_.emplace(*setup.island, job_, setup.out, setup.from.versions, job_session_, world);
  }

  Ending operator()() {
    if (islands_) setup_.resume = islands_->take_state(setup_.resume, sources_.digest);
    step_ = checkpoints_.begin();
    join();
    start();
    while (step_ < job_.run.steps) {
      const std::int64_t before = step_;
      const bool stop = train_step();
      if (step_ > before) after_step(stop);
      if (stop && step_ < job_.run.steps) return end(Ending::kInterrupted);
    }
    return end(Ending::kDone);
  }

 private:
  bool due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  // Work between two steps. After a return to an earlier step all of this was done before, and is saved.
  void after_step(bool stop) {
    const bool last = step_ == job_.run.steps;
    const bool saving = stop || last || due(job_.checkpoint.every);
    const bool copying = due(job_.checkpoint.memory_every) && !stop && !last;
    if (health_.compares(step_, saving || copying)) health_.compare(step_);
    if (last || due(job_.run.eval_every)) validation_.run(step_);
    if (bad_samples_.possible() && (saving || due(job_.run.eval_every))) bad_samples_.report(step_);
    checkpoints_.poll();
    if (stop || last)
      checkpoints_.save_last(step_, validation_.loss_at(step_));
    else if (saving)
      checkpoints_.save(step_, validation_.loss_at(step_));
    if (copying) checkpoints_.snapshot(step_);
    if (islands_) islands_->show(checkpoints_.newest());
  }

  void join() {
    if (islands_) {
      islands_->begin(step_, setup_.resume);
      return islands_->show(setup_.resume);
    }
    if (const int island = job_session_.island_state().island; island >= 0)
      fail(
          ErrorKind::kUsage,
          "{} is a checkpoint of island {} of several jobs; resume it with --islands and --island, "
          "or take its weights alone by model.weights",
          setup_.resume.string(), island);
  }

  planner::StepForecast expected_step(const plan::PlanSet& plan) {
    return planner::expected_step(plan, job_, setup_.calibration, setup_.uncalibrated,
                                  setup_.ranks);
  }

  void start() {
    RunInfo info = forecast(job_, session_.plan(), session_.model().spec, world_.rank(),
                            expected_step(session_.plan()));
    info.name = setup_.out.filename().string();
    info.out = setup_.out;
    info.from = setup_.from;
    info.digest = sources_.digest;
    info.host = host_name();
    info.time = wall_time();
    info.first_step = step_;
    info.resumed = checkpoints_.resumed();
    info.bytes_per_token = sources_.bytes_per_token;
    info.peak_flops = peak_flops_;
    info.offload = session_.away().describe();
    notify(callbacks_, [&](Callback& callback) { callback.on_start(info); });
    checkpoints_.report_refused();
  }

  // Returns whether any rank was asked to stop. A step that ends the run on all ranks does not cancel the checkpoint
  // that is under way.
  bool train_step() {
    try {
      double data_wait_s = 0;
      const JobSession::Load load(
          [&](std::int64_t first_sample) {
            const Stopwatch waiting;
            std::vector<at::Tensor> batch =
                sources_.train->batch(first_sample, job_.run.micro_batch);
            data_wait_s += waiting.seconds();
            return batch;
          },
          [&](std::int64_t first_sample, std::int64_t count) {
            return sources_.train->weight(first_sample, count);
          });
      StepMetrics metrics;
      const exec::StepResult result = run_step(load, metrics);
      metrics.data_wait_ms = data_wait_s * 1e3;
      notify(callbacks_, [&](Callback& callback) { callback.on_step(metrics); });
      health_.check_stragglers(step_, result);
      health_.check_finite(step_, result, load, metrics.step_ms / 1e3);
      step_ = health_.rewind_spike(step_);
      if (islands_) islands_->after_step(step_, metrics.step_ms / 1e3);
      return result.flag;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kNonFinite) checkpoints_.finish();
      throw;
    }
  }

  exec::StepResult run_step(const JobSession::Load& load, StepMetrics& metrics) {
    const Stopwatch watch;
    metrics.lr = job_session_.learning_rate();
    const auto schedules = job_session_.schedules();
    metrics.loss_scale = job_session_.loss_scale();
    const bool traced = step_ + 1 == job_.run.trace;
    const plan::PlanSet& plan =
        session_.plan(job_session_.merges(step_), step_ < config::uncoded_steps(job_));
    std::vector<exec::LineTime> times;
    memory_.begin_step();
    const exec::StepResult result =
        job_session_.train(step_, setup_.stop != nullptr && setup_.stop->load() != 0, load, nullptr,
                           traced ? &times : nullptr);
    const std::int64_t peak = memory_.end_step();
    ++step_;
    world_.flight().enter(watch::Phase::kCallbacks, step_);
    const double seconds = watch.seconds();
    if (traced) write_step_trace(setup_.out, plan, expected_step(plan).lines, times, step_, world_);
    const std::int64_t tokens = job_session_.tokens_per_step();
    metrics.step = step_;
    metrics.loss = result.loss;
    metrics.grad_norm = result.grad_norm;
    metrics.skipped = result.skipped;
    MetricSums own(session_.model().spec.metrics);
    own.add(result.counts);
    metrics.metrics = own.values();
    metrics.metrics.insert(metrics.metrics.end(), schedules.begin(), schedules.end());
    if (job_.parallel.cp > 1 && config::info(job_).zigzag)
      metrics.metrics.emplace_back("cp_imbalance", job_session_.cp_imbalance());
    metrics.tokens = step_ * tokens;
    metrics.tokens_per_s = static_cast<double>(tokens) / seconds;
    metrics.step_ms = seconds * 1e3;
    metrics.mfu = utilization(result.flops / seconds);
    metrics.rss_mb = resident_mb();
    metrics.peak_mb = static_cast<double>(peak) / 1e6;
    metrics.comm_wait_ms = result.comm_wait_s * 1e3;
    metrics.offload_wait_ms = result.offload_wait_s * 1e3;
    metrics.time = wall_time();
    return result;
  }

  // Of the fastest products there were: a step that is faster raises them, on rank 0 for later runs as well.
  double utilization(double flops_per_s) {
    if (flops_per_s > peak_flops_) {
      const DType type = job_.precision.compute;
      if (!callbacks_.empty() && job_session_.device().is_cpu())
        seen_peaks_.raise(type, seen_peaks_.of(type) * (flops_per_s / peak_flops_));
      peak_flops_ = flops_per_s;
    }
    return flops_per_s / peak_flops_;
  }

  Ending end(Ending ending) {
    world_.flight().enter(watch::Phase::kEnd, step_);
    if (islands_) islands_->end(step_);
    std::vector<std::int64_t> measured;
    for (const std::string& text : world_.exchange(std::to_string(memory_.peaks().steps)))
      measured.push_back(std::stoll(text));
    std::map<std::string, scratch::Traffic> moved;
    for (const auto& [tier, traffic] : session_.away().traffic())
      moved[std::string(name(tier))] = traffic;
    notify(callbacks_, [&](Callback& callback) {
      callback.on_end({.ending = ending,
                       .step = step_,
                       .measured_bytes = measured,
                       .measured_process = job_session_.device().is_cpu() ? 1e6 * held_mb() : 0,
                       .offload = moved,
                       .checkpoint = checkpoints_.newest(),
                       .checkpoints_failed = checkpoints_.failed(),
                       .checkpoints_skipped = checkpoints_.left_out(),
                       .snapshots = checkpoints_.snapshots()});
    });
    return ending;
  }

  TrainSetup setup_;
  const config::Job& job_;
  comm::World& world_;
  const Callbacks& callbacks_;
  loaders::Sources sources_;
  JobSession job_session_;
  exec::Session& session_;
  Validation validation_;
  RunCheckpoints checkpoints_;
  BadSamples bad_samples_;
  RunHealth health_;
  MemoryMeter memory_;
  SeenPeaks seen_peaks_;
  double peak_flops_;
  std::optional<Islands> islands_;
  std::int64_t step_ = 0;  // done
};

}  // namespace

Ending train(const TrainSetup& setup, comm::World& world, const Callbacks& callbacks) {
  return Run(setup, world, callbacks)();
}

}  // namespace trireme::train
