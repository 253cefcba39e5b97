#include "trireme/train/job_session.h"

#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/cut_tokens.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/optim/make_optimizer.h"
#include "trireme/optim/schedule.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/outer_steps.h"

namespace trireme::train {
namespace {

std::optional<optim::LossScaler> scaler_of(const config::Precision& precision,
                                           const optim::LossScaleOptions& options) {
  if (precision.loss_scale != "dynamic") return std::nullopt;
  return optim::LossScaler(options);
}

// Nothing above it: where the run's disk came off, another would fill. Says whether it was not there before.
bool make_scratch_directory(const Path& directory) {
  if (directory.empty())
    fail(ErrorKind::kUsage,
         "the job offloads to nvme, but this run has no directory of its own; set offload.path");
  std::error_code cause;
  const bool made = std::filesystem::create_directory(directory, cause);
  if (cause)
    fail(ErrorKind::kData, "{}: cannot create it: {}; set offload.path to a directory",
         directory.string(), cause.message());
  return made;
}

// Sets `made` where it makes `own`.
exec::OpenScratch scratch_of(const config::Offload& offload, const Path& own, bool& made) {
  return [&offload, own, &made](plan::Tier tier) -> std::unique_ptr<scratch::Scratch> {
    if (tier == plan::Tier::kHost) return scratch::open_memory();
    if (offload.path.empty()) {
      made = make_scratch_directory(own);
      return scratch::open_file({.directory = own});
    }
    try {
      return scratch::open_file({.directory = offload.path});
    } catch (const Error& error) {
      fail(error.kind(), "offload.path: {}", error.what());
    }
  };
}

}  // namespace

JobSession::JobSession(const config::Job& job, comm::World& world, const Path& scratch,
                       const optim::LossScaleOptions& loss_scale)
    : JobSession(job, world, blocks::build(job, world), scratch, loss_scale) {}

JobSession::JobSession(const config::Job& job, comm::World& world, exec::Model model,
                       const Path& scratch, const optim::LossScaleOptions& loss_scale)
    : job_(job),
      rank_(world.rank()),
      device_(blocks::device_of(job)),
      optimizer_(optim::make_optimizer(job)),
      loss_scale_(loss_scale),
      scaler_(scaler_of(job.precision, loss_scale)),
      spikes_({.zscore = job.run.spike_zscore, .window = job.run.spike_window}),
      grid_(model::grid_of(job, model.spec)),
      session_(std::move(model),
               {.mesh = model::mesh_of(job),
                .recipe = model::recipe_of(job),
                .grid = grid_,
                .seed = static_cast<std::uint64_t>(job.run.seed),
                .device = device_,
                .scratch = scratch_of(job.offload, scratch, scratch_made_)},
               world, *optimizer_) {
  // Every rank's file is open by now and has no name: the directory is no longer needed. Earlier files in it stay.
  std::error_code ignored;
  if (scratch_made_) std::filesystem::remove(scratch, ignored);
  if (!scaler_) fixed_scale_ = config::fixed_loss_scale(job.precision);
}

double JobSession::learning_rate() const {
  return optim::learning_rate(job_.optim, job_.run.steps, updates_);
}

double JobSession::weight_decay() const {
  return optim::weight_decay(job_.optim, job_.run.steps, updates_);
}

double JobSession::momentum() const {
  return optim::momentum(job_.jepa, job_.optim, job_.run.steps, updates_);
}

std::vector<std::pair<std::string, double>> JobSession::schedules() const {
  std::vector<std::pair<std::string, double>> moving;
  if (job_.optim.weight_decay_end) moving.emplace_back("weight_decay", weight_decay());
  if (job_.jepa.momentum_end) moving.emplace_back("momentum", momentum());
  return moving;
}

void JobSession::begin_with_weights() {
  if (job_.model.weights.empty()) return;
  // What is built on a tower begins with the tower's alone.
  checkpoint::load_weights(
      job_.model.weights, session_.units(), session_.model().spec.units,
      config::info(job_).chain ? checkpoint::NewUnits::kRefused : checkpoint::NewUnits::kAsDrawn);
  session_.units().adopt_outer();
  session_.units().refresh();
}

TrainState JobSession::state() const {
  TrainState state{.updates = updates_,
                   .earlier = earlier_,
                   .non_finite = non_finite_,
                   .left_out = left_out_,
                   .spikes = spikes_.state(),
                   .merged = merged_,
                   .island = island_state_};
  if (scaler_) state.loss_scale = scaler_->state();
  return state;
}

void JobSession::restore(const TrainState& state) {
  updates_ = state.updates;
  earlier_ = state.earlier;
  non_finite_ = state.non_finite;
  left_out_ = state.left_out;
  spikes_.restore(state.spikes);
  merged_ = state.merged;
  island_state_ = state.island;
  spike_.reset();
  scaler_ = scaler_of(job_.precision, loss_scale_);
  if (scaler_ && state.loss_scale) scaler_->restore(*state.loss_scale);
}

void JobSession::continue_after(const TrainState& other, std::int64_t steps, std::int64_t samples) {
  TrainState state{.earlier = {.steps = other.earlier.steps + steps,
                               .updates = other.earlier.updates + other.updates},
                   .loss_scale = other.loss_scale};
  const std::int64_t batch = job_.run.global_batch, used = (samples + batch - 1) / batch;
  if (used > 0) state.left_out.add({.first = 0, .last = used - 1});
  restore(state);
}

loaders::BatchRange JobSession::rewind(TrainState earlier, std::int64_t steps, const Spike& spike) {
  const std::int64_t first = left_out_.batch(steps);
  const loaders::BatchRange range{
      .first = first,
      .last = std::max(first + 2 * job_.run.spike_window - 1, left_out_.batch(spike.step - 1))};
  earlier.left_out = left_out_;
  earlier.left_out.add(range);
  SpikeDetector spikes = spikes_;
  spikes.rewind(earlier.spikes, spike);
  earlier.spikes = spikes.state();
  restore(earlier);
  return range;
}

// The samples of one rank's micro-batch, and of each its tokens: a function of what was consumed and of global
// ids alone.
std::function<std::vector<at::Tensor>(int mb)> JobSession::of_batch(std::int64_t batch,
                                                                    const Load& load) {
  return [this, batch, &load](int mb) {
    const plan::PlanSet& plan = session_.plan();
    const std::int64_t id = plan::micro_batch_id(plan.mesh, plan.recipe, rank_, mb);
    std::vector<at::Tensor> inputs =
        load.batch(batch * job_.run.global_batch + job_.run.micro_batch * id);
    const std::size_t given = inputs.size();
    // Rows in order are cut where blocks begin.
    if (config::info(job_).zigzag) {
      const mesh::BalancedLayout even = loaders::token_layout(job_, inputs);
      cp_imbalance_ = std::max(cp_imbalance_, even.imbalance);
      inputs = loaders::cut_tokens(job_, inputs, even.layout,
                                   plan.mesh.coordinate(rank_, mesh::Axis::kCp));
    }
    // Chunks stay on the CPU, where blocks read them.
    for (std::size_t i = 0; i < given; ++i) inputs[i] = inputs[i].to(device_);
    return inputs;
  };
}

plan::OuterWork JobSession::merges(std::int64_t step) const {
  const auto& outer = session_.plan().recipe.outer;
  if (!outer || island_ >= 0) return {};
  return plan::outer_work(*outer, step + 1, step + 1 == job_.run.steps, merged_);
}

// The part of a global batch's weight that this rank's island has: equal parts without a weight of samples.
double JobSession::island_share(std::int64_t first, double whole, const Load& load) const {
  const auto& outer = session_.plan().recipe.outer;
  if (!outer || whole == 0) return 1;
  const std::int64_t samples = job_.run.global_batch / outer->islands;
  if (!load.weight) return 1.0 / outer->islands;
  const int island = session_.plan().mesh.coordinate(rank_, mesh::Axis::kIsland);
  const double own = load.weight(first + island * samples, samples);
  return own > 0 ? own / whole : 1;
}

// The part that this rank's island has of the weight of samples since a fragment was sent last, by fragment.
std::vector<double> JobSession::island_weights(std::int64_t step, const Load& load) const {
  if (!load.weight) return {};
  const plan::OuterSteps& outer = session_.plan().recipe.outer.value();
  const std::int64_t batch = job_.run.global_batch, samples = batch / outer.islands;
  const int island = session_.plan().mesh.coordinate(rank_, mesh::Axis::kIsland);
  std::vector<double> weights;
  for (int fragment = 0; fragment < outer.fragments; ++fragment) {
    double own = 0, all = 0;
    for (std::int64_t one = plan::last_sent(outer, fragment, step + 1, merged_); one <= step;
         ++one) {
      const std::int64_t first = left_out_.batch(one) * batch;
      own += load.weight(first + island * samples, samples);
      all += load.weight(first, batch);
    }
    weights.push_back(all > 0 ? own / all : 1.0 / outer.islands);
  }
  return weights;
}

std::int64_t JobSession::batch_of(std::int64_t step) const {
  const std::int64_t own = left_out_.batch(step);
  return island_ < 0 ? own : own * islands_ + island_;
}

exec::StepArgs JobSession::args_of(std::int64_t step, const Load& load) {
  const std::int64_t batch = batch_of(step), samples = job_.run.global_batch;
  const double weight =
      load.weight ? load.weight(batch * samples, samples) : static_cast<double>(tokens_per_step());
  return {.step = step,
          .earlier = earlier_.steps,
          .loss_scale = weight > 0 ? 1.0 / weight : 0,
          .island_share = island_share(batch * samples, weight, load),
          .gradient_scale = loss_scale(),
          .skip_overflow = scales_dynamically() || job_.run.skip_non_finite > 0,
          .update = {.lr = learning_rate(),
                     .weight_decay = weight_decay(),
                     .step = earlier_.updates + updates_ + 1,
                     .noise = static_cast<std::uint64_t>(job_.run.seed)},
          .clip = job_.optim.clip,
          .momentum = momentum(),
          .uncoded = step < config::uncoded_steps(job_),
          .load = of_batch(batch, load)};
}

exec::StepResult JobSession::train(std::int64_t step, bool flag, const Load& load,
                                   exec::Observer* observer, std::vector<exec::LineTime>* times) {
  exec::StepArgs args = args_of(step, load);
  cp_imbalance_ = 0;
  args.flag = flag;
  args.observer = observer;
  args.times = times;
  args.outer = merges(step);
  if (!args.outer.sent.empty()) args.island_weights = island_weights(step, load);
  const exec::StepResult result = session_.step(args);
  if (step + 1 == job_.run.steps && session_.plan().recipe.outer && island_ < 0) merged_ = step + 1;
  if (!result.skipped) ++updates_;
  if (scaler_)
    scaler_->update(result.skipped, step);
  else
    non_finite_ = result.skipped ? non_finite_ + 1 : 0;
  spike_ = result.skipped ? std::nullopt : spikes_.judge(step + 1, result.loss);
  return result;
}

void JobSession::look_at(std::int64_t step, const Load& load, exec::Observer& observer) {
  exec::StepArgs args = args_of(step, load);
  args.skip_overflow = true;
  args.apply = false;
  args.observer = &observer;
  session_.step(args);
}

exec::StepResult JobSession::evaluate(std::int64_t step, std::int64_t batch, const Load& load,
                                      exec::Observer* observer) {
  return session_.evaluate({.step = step,
                            .skip_overflow = scales_dynamically(),
                            .load = of_batch(batch, load),
                            .observer = observer});
}

}  // namespace trireme::train
