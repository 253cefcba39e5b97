// JobSession: what a job makes of one rank: its optimizer, its session, and the steps the job asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/exec/session.h"
#include "trireme/optim/adamw.h"

namespace trireme::train {

class JobSession {
 public:
  // The inputs of a micro-batch: tokens, targets and, with data.documents, positions of
  // run.micro_batch samples from this one on.
  using Load = std::function<std::vector<at::Tensor>(std::int64_t first_sample)>;

  // Collective over the world. `job` is resolved for it; both must outlive this.
  JobSession(const config::Job& job, comm::World& world);
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;

  exec::Session& session() { return session_; }
  at::Device device() const { return device_; }
  double learning_rate(std::int64_t step) const;
  std::int64_t tokens_per_step() const { return job_.run.global_batch * job_.model.seq_len; }

  // The step-th step (from 0) on the step-th global batch. `flag`, `observer` and `times` as in exec::StepArgs.
  exec::StepResult train(std::int64_t step, bool flag, const Load& load,
                         exec::Observer* observer = nullptr,
                         std::vector<exec::LineTime>* times = nullptr);
  // The sum of losses over the batch-th global batch, without gradients or noise.
  exec::StepResult evaluate(std::int64_t batch, const Load& load);

 private:
  JobSession(const config::Job& job, comm::World& world, exec::Model model);
  std::function<std::vector<at::Tensor>(int mb)> of_batch(std::int64_t batch,
                                                          const Load& load) const;

  const config::Job& job_;
  int rank_;
  at::Device device_;
  optim::AdamW updater_;
  plan::schedules::Grid grid_;
  exec::Session session_;
};

}  // namespace trireme::train
