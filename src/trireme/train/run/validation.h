// Validation: the loss on the validation split, now and then.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/data/loaders/source.h"
#include "trireme/train/callbacks.h"
#include "trireme/train/job_session.h"

namespace trireme::train {

class Validation {
 public:
  // All of them outlive it.
  Validation(const config::Job& job, const loaders::Sources& sources, JobSession& steps,
             const Callbacks& callbacks);

  // Validates after `step` steps and reports to the callbacks. Collective. Does nothing with run.eval_every=-1.
  void run(std::int64_t step);
  // The loss, if it belongs to this step and is finite.
  std::optional<double> loss_at(std::int64_t step) const;

 private:
  // Batches of one validation: all, run.eval_batches, or at most a tenth of run.steps if only the last step is
  // validated.
  std::int64_t batches() const;

  const config::Job& job_;
  const loaders::Sources& sources_;
  JobSession& job_session_;
  const Callbacks& callbacks_;
  std::int64_t step_ = -1;  // that loss_ is of
  double loss_ = 0;
};

}  // namespace trireme::train
