#include "trireme/train/run/run_health.h"

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/train/recording/compare_replicas.h"
#include "trireme/train/run/non_finite.h"

namespace trireme::train {
namespace {

constexpr std::int64_t kMostRewinds = 3;  // that do not get past a step

}  // namespace

RunHealth::RunHealth(const config::Job& job, JobSession& steps, RunCheckpoints& checkpoints,
                     comm::World& world, const Callbacks& callbacks)
    : job_(job),
      job_session_(steps),
      checkpoints_(checkpoints),
      world_(world),
      callbacks_(callbacks),
      stragglers_(steps.session().plan().list_of_rank) {
  if (job.run.compare_replicas > 0 &&
      !has_replicas(steps.session().units(), steps.session().model().spec.units, world))
    fail(ErrorKind::kUsage,
         "run.compare_replicas={}: no two ranks hold the same; leave it out, or replicate "
         "(parallel.dp_replicate, or zero=0)",
         job.run.compare_replicas);
}

void RunHealth::report_fault(const formats::Event& fault) const {
  notify(callbacks_, [&](Callback& callback) { callback.on_fault(fault); });
}

void RunHealth::check_finite(std::int64_t step, const exec::StepResult& result,
                             const JobSession::Load& load, double seconds) {
  const std::int64_t row = job_session_.non_finite_in_a_row();
  if (row == 0) return;
  const Stopwatch looking;
  const bool last = row >= job_.run.skip_non_finite;
  const NonFinite first = find_non_finite(job_session_, step - 1, load, world_);
  formats::Event fault{
      .kind = "not finite",
      .rank = first.rank,
      .host = first.host,
      .step = step,
      .op = "training",
      .cause = fmt::format("loss {}, gradient norm {}: {}", result.loss, result.grad_norm,
                           first.rank < 0
                               ? "repeated, everything is finite: a transient fault of the machine"
                               : fmt::format("rank {} first: {}", first.rank, first.what)),
      .action = last ? "stop" : "skip"};
  fault.lost_s = seconds + looking.seconds();
  report_fault(fault);
  if (last)
    fail(ErrorKind::kNonFinite,
         "step {}, {} in a row: {}; none of them changed a parameter; lower optim.lr, or check "
         "the data of these steps (run.skip_non_finite={})",
         step, row, fault.cause, job_.run.skip_non_finite);
}

void RunHealth::check_stragglers(std::int64_t step, const exec::StepResult& result) {
  if (callbacks_.empty()) return;
  for (const Straggler& one : stragglers_.add(result.busy)) {
    formats::Event event{.kind = "straggler",
                         .rank = one.rank,
                         .step = step,
                         .op = std::string(one.kind),
                         .cause = describe(one),
                         .action = "report"};
    event.lost_s = one.seconds - one.others;
    report_fault(event);
  }
}

std::int64_t RunHealth::rewind_spike(std::int64_t step) {
  if (!job_session_.spike()) return step;
  const Stopwatch watch;
  const Spike spike = *job_session_.spike();
  const std::int64_t rewinds = job_session_.rewinds();
  formats::Event fault{.kind = "loss spike",
                       .step = step,
                       .op = "training",
                       .cause = fmt::format("loss {:.4g} after a median of {:.4g}, z-score {:.3g}",
                                            spike.loss, spike.median, spike.zscore),
                       .action = "stop"};
  if (rewinds >= kMostRewinds) {
    report_fault(fault);
    fail(ErrorKind::kNonFinite,
         "step {}: {}, and {} rewinds have not passed it; lower optim.lr, raise "
         "run.spikes, or check the data",
         step, fault.cause, rewinds);
  }
  const std::int64_t last = step - job_.run.spike_window;
  const auto rewind = checkpoints_.rewind(spike, last);
  fault.action = rewind ? "rewind" : "continue";
  fault.cause += rewind ? fmt::format("; rewind to step {}, batches {} to {} left out",
                                      rewind->step, rewind->left_out.first, rewind->left_out.last)
                        : fmt::format("; no usable checkpoint of step {} or before", last);
  fault.lost_s = rewind ? rewind->lost_s : watch.seconds();
  report_fault(fault);
  if (!rewind) return step;
  notify(callbacks_, [&](Callback& callback) { callback.on_rewind(rewind->step); });
  return rewind->step;
}

bool RunHealth::compares(std::int64_t step, bool saving) const {
  const std::int64_t every = job_.run.compare_replicas;
  return every > 0 && (saving || step % every == 0);
}

void RunHealth::compare(std::int64_t step) {
  world_.flight().enter(watch::Phase::kCheckpoint, step);  // as long as reading all of one
  const Stopwatch watch;
  const Apart apart = compare_replicas(job_session_.session().units(),
                                       job_session_.session().model().spec.units, world_);
  if (apart.ranks.empty()) return;
  formats::Event fault{.kind = "replicas differ",
                       .rank = apart.outvoted && apart.ranks.size() == 1 ? apart.ranks[0] : -1,
                       .step = step,
                       .op = "comparison of replicas",
                       .cause = describe(apart),
                       .action = "stop"};
  fault.lost_s = watch.seconds();
  report_fault(fault);
  checkpoints_.finish();
  fail(
      ErrorKind::kPeerLost,
      "after step {}: {}; memory has gone bad. Checkpoints were compared before they were written: "
      "repeat the command to continue from the last, without that machine if this happens again",
      step, fault.cause);
}

}  // namespace trireme::train
