#include "trireme/train/validation.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/clock.h"

namespace trireme::train {

Validation::Validation(const config::Job& job, const formats::Dataset& dataset, JobSession& steps,
                       const Callbacks& callbacks)
    : job_(job),
      dataset_(dataset),
      steps_(steps),
      callbacks_(callbacks),
      loader_(dataset.val, job.model.seq_len, job.model.vocab, job.data.documents) {}

double Validation::bytes_per_token() const {
  const auto& info = dataset_.val_info;
  if (info.tokens == 0) return 0;
  return static_cast<double>(info.text_bytes) / static_cast<double>(info.tokens);
}

void Validation::run(std::int64_t step) {
  step_ = -1;
  if (job_.run.eval_every == 0) return;
  Stopwatch watch;
  const std::int64_t batch_size = job_.run.global_batch;
  std::int64_t batches = (loader_.samples() + batch_size - 1) / batch_size;
  if (job_.run.eval_batches > 0) batches = std::min(batches, job_.run.eval_batches);
  double loss_sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const std::int64_t valid = loader_.valid_tokens(batch * batch_size, batch_size);
    loss_sum += steps_
                    .evaluate(step, batch,
                              [&](std::int64_t first_sample) {
                                return loader_.batch(first_sample, job_.run.micro_batch);
                              })
                    .loss;
    tokens += valid;
  }
  if (tokens == 0) return;
  const double loss = loss_sum / static_cast<double>(tokens);
  if (std::isfinite(loss)) {
    step_ = step;
    loss_ = loss;
  }
  const double bits_per_byte = bytes_per_token() > 0 ? loss / std::log(2.0) / bytes_per_token() : 0;
  tell(callbacks_, [&](Callback& callback) {
    callback.on_eval({.step = step,
                      .loss = loss,
                      .bits_per_byte = bits_per_byte,
                      .tokens = tokens,
                      .seconds = watch.seconds()});
  });
}

std::optional<double> Validation::loss_at(std::int64_t step) const {
  return step == step_ ? std::optional(loss_) : std::nullopt;
}

}  // namespace trireme::train
