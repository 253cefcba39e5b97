#include "trireme/train/run/validation.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/clock.h"
#include "trireme/families/probe/keys_probes.h"
#include "trireme/train/metric_sums.h"
#include "trireme/train/watch/wall_time.h"

namespace trireme::train {

Validation::Validation(const config::Job& job, const loaders::Sources& sources, JobSession& steps,
                       const Callbacks& callbacks)
    : job_(job), sources_(sources), job_session_(steps), callbacks_(callbacks) {}

std::int64_t Validation::batches() const {
  constexpr std::int64_t kStepsABatch = 10;  // forward alone: about a thirtieth of the run's time
  const config::Run& run = job_.run;
  const std::int64_t all = (sources_.held_out->samples() + run.global_batch - 1) / run.global_batch;
  if (run.eval_batches > 0) return std::min(all, run.eval_batches);
  if (run.eval_every > 0) return all;
  return std::min(all, std::max<std::int64_t>(1, run.steps / kStepsABatch));
}

void Validation::run(std::int64_t step) {
  step_ = -1;
  if (job_.run.eval_every < 0) return;
  Stopwatch watch;
  const loaders::Source& samples = *sources_.held_out;
  const std::int64_t batch_size = job_.run.global_batch;
  double loss_sum = 0, weight = 0;
  const std::vector<std::string> names =
      config::held_out_metrics(job_, job_session_.session().model().spec.metrics);
  MetricSums metrics(names);
  const std::int64_t count = batches();
  // Islands evaluate the weights that they merge.
  exec::Session& session = job_session_.session();
  const bool islands = session.plan().recipe.outer.has_value();
  if (islands) session.units().swap_outer();
  for (std::int64_t batch = 0; batch < count; ++batch) {
    const exec::StepResult result =
        job_session_.evaluate(step, batch, [&](std::int64_t first_sample) {
          return samples.batch(first_sample, job_.run.micro_batch);
        });
    loss_sum += result.loss;
    metrics.add(result.counts);
    weight += samples.weight(batch * batch_size, batch_size);
    notify(callbacks_, [&](Callback& callback) { callback.on_eval_batch(batch + 1, count); });
  }
  if (islands) session.units().swap_outer();
  if (weight == 0) return;
  const double loss = loss_sum / weight;
  if (std::isfinite(loss)) {
    step_ = step;
    loss_ = loss;
  }
  // Of a loss that is more than the cross-entropy, that part.
  double nats = loss;
  for (const auto& [name, value] : metrics.values())
    if (name == "nats") nats = value;
  const double bits_per_byte =
      sources_.bytes_per_token > 0 ? nats / std::log(2.0) / sources_.bytes_per_token : 0;
  notify(callbacks_, [&](Callback& callback) {
    callback.on_eval({.step = step,
                      .loss = loss,
                      .bits_per_byte = bits_per_byte,
                      .metrics = metrics.values(),
                      .tokens = static_cast<std::int64_t>(weight),
                      .seconds = watch.seconds(),
                      .time = wall_time()});
  });
}

std::optional<double> Validation::loss_at(std::int64_t step) const {
  return step == step_ ? std::optional(loss_) : std::nullopt;
}

}  // namespace trireme::train
