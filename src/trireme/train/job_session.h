// JobSession: what a job makes of one rank: its optimizer, its session, and the steps the job asks for.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/data/loaders/left_out.h"
#include "trireme/exec/session.h"
#include "trireme/optim/loss_scaler.h"
#include "trireme/train/run/spike.h"
#include "trireme/train/run/train_state.h"

namespace trireme::train {

class JobSession {
 public:
  // Where the inputs of a micro-batch come from.
  struct Load {
    // Loads run.micro_batch samples from this one on, in the order of the program's inputs.
    std::function<std::vector<at::Tensor>(std::int64_t first_sample)> batch;
    // Divisor of the sum of losses of so many samples; empty: their tokens.
    std::function<double(std::int64_t first_sample, std::int64_t count)> weight{};

    Load() = default;
    template <typename Batch>
    requires std::invocable<Batch&, std::int64_t> Load(Batch batch_of)
        : batch(std::move(batch_of)) {}
    template <typename Batch, typename Weight>
    Load(Batch batch_of, Weight weight_of)
        : batch(std::move(batch_of)), weight(std::move(weight_of)) {}
  };

  // Collective over the world. `job` is resolved for it; both must outlive this. Storage of offload to nvme is
  // offload.path or, if the job names none, `scratch`. `scratch` is made if only its parent exists, and then removed at
  // the end. Throws Error{kData} if that fails. `loss_scale`: constants of a dynamic loss scale.
  JobSession(const config::Job& job, comm::World& world, const Path& scratch = {},
             const optim::LossScaleOptions& loss_scale = {});
  // The same of a model that blocks::build made for this job and world.
  JobSession(const config::Job& job, comm::World& world, exec::Model model,
             const Path& scratch = {}, const optim::LossScaleOptions& loss_scale = {});
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;

  exec::Session& session() { return session_; }
  at::Device device() const { return device_; }
  // Learning rate of the next update.
  double learning_rate() const;
  // Other quantities that change from update to update, by name; values of the next one.
  std::vector<std::pair<std::string, double>> schedules() const;
  // Factor of the gradients of the next step.
  double loss_scale() const { return scaler_ ? scaler_->scale() : fixed_scale_; }
  // Whether steps that overflow are skipped, and the scale follows them.
  bool scales_dynamically() const { return scaler_.has_value(); }
  // Steps in a row up to now that were skipped because they were not finite, with nothing to scale.
  std::int64_t non_finite_in_a_row() const { return non_finite_; }
  std::int64_t tokens_per_step() const {
    return job_.run.global_batch * session_.model().spec.sample_tokens;
  }

  // Attention scores of the cp rank with the most over the mean, in the last step's micro-batch where that is largest.
  double cp_imbalance() const { return cp_imbalance_; }
  // The one that began with the last step.
  const std::optional<Spike>& spike() const { return spike_; }
  // Number of returns to a checkpoint since training last passed the steps that it returned from.
  std::int64_t rewinds() const { return spikes_.state().rewinds; }
  // Number of samples that `steps` steps have used of the order of samples, and skipped.
  std::int64_t consumed_samples(std::int64_t steps) const {
    return left_out_.batch(steps) * job_.run.global_batch;
  }

  // Fills parameters from model.weights, if the job names any. Collective.
  void begin_with_weights();

  TrainState state() const;
  // Continues from that state. A dynamic scale that is not part of the state begins with its initial value.
  void restore(const TrainState& state);
  // Begins a run that keeps the optimizer states of another, which had this state after `steps` steps. Its count of
  // updates continues, its schedules begin, and the first `samples` of the order of samples are used.
  void continue_after(const TrainState& other, std::int64_t steps, std::int64_t samples);
  // Continues from the state after `steps` steps, before the spike, and skips the next batches: twice run.spikes' second number
  // of them, and all up to the spike's.
  loaders::BatchRange rewind(TrainState earlier, std::int64_t steps, const Spike& spike);

  // Runs step `step` (from 0) on the step-th global batch that is not skipped; it is the next update unless it is
  // skipped. `flag`, `observer` and `times` as in exec::StepArgs. A step that is not finite is skipped if the job says
  // so. Throws Error{kNonFinite} as exec::Executor does, or where a dynamic loss scale overflows at its floor; no
  // parameter has changed then.
  exec::StepResult train(std::int64_t step, bool flag, const Load& load,
                         exec::Observer* observer = nullptr,
                         std::vector<exec::LineTime>* times = nullptr);
  // The step again, for the observer alone: nothing changes.
  void look_at(std::int64_t step, const Load& load, exec::Observer& observer);
  // The sum of losses over the batch-th global batch after `step` steps, without gradients or noise. Where steps that
  // overflow are skipped it may be none, else that throws Error{kNonFinite}.
  exec::StepResult evaluate(std::int64_t step, std::int64_t batch, const Load& load,
                            exec::Observer* observer = nullptr);

  // What step `step` (from 0) merges over islands.
  plan::OuterWork merges(std::int64_t step) const;

  // This job is one of several islands, whose samples are disjoint: between steps train/run/islands.h merges, not the
  // plan.
  void share_samples(int island, int islands) {
    island_ = island;
    islands_ = islands;
  }
  const islands::IslandState& island_state() const { return island_state_; }
  void set_island_state(const islands::IslandState& state) { island_state_ = state; }

 private:
  double weight_decay() const;
  double momentum() const;
  exec::StepArgs args_of(std::int64_t step, const Load& load);
  std::int64_t batch_of(std::int64_t step) const;  // its number in the order of samples
  double island_share(std::int64_t first, double whole, const Load& load) const;
  std::vector<double> island_weights(std::int64_t step, const Load& load) const;
  std::function<std::vector<at::Tensor>(int mb)> of_batch(std::int64_t batch, const Load& load);

  const config::Job& job_;
  int rank_;
  at::Device device_;
  std::unique_ptr<exec::Optimizer> optimizer_;
  double fixed_scale_ = 1;
  double cp_imbalance_ = 0;
  optim::LossScaleOptions loss_scale_;
  std::optional<optim::LossScaler> scaler_;
  std::int64_t updates_ = 0;
  Earlier earlier_;
  std::int64_t non_finite_ = 0;
  int island_ = -1, islands_ = 1;  // of all jobs; -1: this job is no island
  islands::IslandState island_state_{};
  std::int64_t merged_ = 0;  // steps up to which everything was sent and applied at once
  loaders::LeftOut left_out_;
  SpikeDetector spikes_;
  std::optional<Spike> spike_;
  schedules::Grid grid_;
  bool scratch_made_ = false;  // its directory, by this rank
  exec::Session session_;
};

}  // namespace trireme::train
