#include "trireme/train/recording/recording.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/families.h"
#include "trireme/data/loaders/tokens/cut_tokens.h"
#include "trireme/model/layout.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/train/recording/recording_contents.h"
#include "trireme/train/recording/recording_parts.h"

namespace trireme::train {
namespace {

// Part of a step on one rank.
class RankRecorder : public exec::Observer {
 public:
  RankRecorder(const Contents& contents, int rank)
      : contents_(contents), rank_(rank), seen_(contents.size()), parts_(contents.size()) {}

  void on_activation(plan::ValueId value, std::int64_t micro_batch,
                     const at::Tensor& tensor) override {
    seen_[contents_.of_value(value)].push_back(
        {.rank = rank_,
         .micro_batch = micro_batch,
         .sizes = tensor.sizes().vec(),
         .type = tensor.is_floating_point() ? comm::dtype_of(tensor.scalar_type()) : DType::kF64,
         .values = copy(tensor)});
  }
  void on_gradients(const exec::Units& units) override {
    for (const exec::StateSlice& slice : units.gradient_slices())
      add_slice(Kind::kGradient, units, slice, copy(units.read(slice)));
  }
  // First of all, and after every step.
  void on_parameters(const exec::Units& units) {
    std::vector<exec::StateSlice> slices = units.local_slices();
    std::erase_if(slices, [](const exec::StateSlice& slice) { return slice.kind != "param"; });
    const bool start = parameters_.empty();
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const at::Tensor now = copy(units.read(slices[i]));
      if (start) {
        add_slice(Kind::kParameter, units, slices[i], now);
        parameters_.push_back(now);
        continue;
      }
      add_slice(Kind::kUpdate, units, slices[i], now - parameters_[i]);
      parameters_[i] = now;
    }
  }

  // Of one tensor, one a micro-batch or slice; they are gone from here.
  std::vector<Observed> take_seen(std::size_t tensor) { return std::exchange(seen_[tensor], {}); }
  std::vector<Part> take(std::size_t tensor) { return std::exchange(parts_[tensor], {}); }

 private:
  void add(std::size_t tensor, std::vector<model::Extent> extents, const at::Tensor& values) {
    if (!extents.empty())
      parts_[tensor].push_back({.rank = rank_, .extents = std::move(extents), .values = values});
  }

  static at::Tensor copy(const at::Tensor& tensor) {
    return tensor.detach()
        .to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true)
        .flatten();
  }

  void add_slice(Kind kind, const exec::Units& units, const exec::StateSlice& slice,
                 const at::Tensor& values) {
    auto within = model::extents_within(contents_.spec().units[slice.unit], units.tp_rank(),
                                        units.tp(), slice.offset, values.numel());
    for (std::size_t param = 0; param < within.size(); ++param)
      add(contents_.of_param(kind, slice.unit, param), std::move(within[param]), values);
  }

  const Contents& contents_;
  int rank_;
  std::vector<std::vector<Observed>> seen_;  // by tensor, of activations
  std::vector<std::vector<Part>> parts_;     // by tensor, of others
  std::vector<at::Tensor> parameters_;       // of each slice, after the last step
};

// All ranks of one run, step after step.
class RecordedRun {
 public:
  RecordedRun(const config::Job& job, int steps, const JobSession::Load& load)
      : contents_(job), steps_(steps), load_(load) {
    recording_.compute = job.precision.compute;
    recording_.tensors = contents_.initial_parameters();
    for (int step = 0; step < steps; ++step)
      for (RecordedTensor& tensor : contents_.tensors(step))
        recording_.tensors.push_back(std::move(tensor));
    for (int rank = 0; rank < contents_.mesh().world(); ++rank)
      ranks_.push_back(std::make_unique<RankRecorder>(contents_, rank));
  }

  Recording operator()() {
    comm::run_local_ranks(contents_.mesh().world(), contents_.job().parallel.comm_timeout_s,
                          [&](comm::World& world) { run_rank(world); });
    return std::move(recording_);
  }

 private:
  void run_rank(comm::World& world) {
    JobSession session(contents_.job(), world);
    session.begin_with_weights();
    ranks_[world.rank()]->on_parameters(session.session().units());
    put_together(world, {}, contents_.updates(), 0);
    std::size_t first = contents_.size() - contents_.updates();
    bool finite = true;
    for (int step = 0; step < steps_ && finite; ++step, first += contents_.size()) {
      finite = run_step(session, step, world.rank());
      put_together(world, layouts_of(step), 0, first);
    }
  }

  // The tensors from `begin` on of what ranks have now, which are the recording's from `first` on.
  void put_together(comm::World& world, std::span<const mesh::TokenLayout> layouts,
                    std::size_t begin, std::size_t first) {
    world.exchange("recorded");
    for (std::size_t i = begin + static_cast<std::size_t>(world.rank()); i < contents_.size();
         i += static_cast<std::size_t>(world.size()))
      put_together(i, layouts, recording_.tensors[first + i - begin]);
    world.exchange("put together");
  }

  // False where the step ended in a loss or norm that is not finite, as it does on every rank.
  bool run_step(JobSession& session, int step, int rank) {
    RankRecorder& recorder = *ranks_[rank];
    try {
      const exec::StepResult result = session.train(step, /*flag=*/false, load_, &recorder);
      if (rank == 0) recording_.losses.push_back(result.loss);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNonFinite) throw;
      if (rank == 0) recording_.ended = error.what();
      return false;
    }
    recorder.on_parameters(session.session().units());
    return true;
  }

  // Of a step whose loader cuts rows, by micro-batch.
  std::vector<mesh::TokenLayout> layouts_of(int step) const {
    const config::Job& job = contents_.job();
    std::vector<mesh::TokenLayout> layouts;
    for (std::int64_t id = 0; config::info(job).zigzag && id < contents_.micro_batches(); ++id)
      layouts.push_back(loaders::token_layout(job, load_.batch(step * job.run.global_batch +
                                                               id * job.run.micro_batch))
                            .layout);
    return layouts;
  }

  void put_together(std::size_t tensor, std::span<const mesh::TokenLayout> layouts,
                    RecordedTensor& whole) {
    if (whole.kind == Kind::kActivation)
      merge_activation(of_all(tensor, &RankRecorder::take_seen), contents_, layouts, tensor, whole);
    else
      merge(of_all(tensor, &RankRecorder::take), whole);
  }

  // Parts of the ranks, by rank.
  template <typename T>
  std::vector<T> of_all(std::size_t tensor, std::vector<T> (RankRecorder::*take)(std::size_t)) {
    std::vector<T> all;
    for (const auto& rank : ranks_)
      std::ranges::move(((*rank).*take)(tensor), std::back_inserter(all));
    return all;
  }

  const Contents contents_;
  const int steps_;
  const JobSession::Load& load_;
  Recording recording_;
  std::vector<std::unique_ptr<RankRecorder>> ranks_;
};

}  // namespace

std::string_view name(Kind kind) {
  constexpr std::string_view kNames[] = {"parameter", "activation", "gradient", "update"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string step_name(int step) { return step == kStart ? "start" : std::to_string(step); }

std::int64_t RecordedTensor::numel() const {
  std::int64_t product = 1;
  for (std::int64_t size : shape) product *= size;
  return product;
}

bool RecordedTensor::recorded() const { return !holders.empty() && std::ssize(values) == numel(); }

int RecordedTensor::rank_of(std::int64_t element) const {
  for (const Part& part : holders)
    for (const model::Extent& extent : part.extents)
      if (element >= extent.global && element < extent.global + extent.count) return part.rank;
  TRIREME_CHECK(false, "no rank holds element {} of {}", element, name);
}

Recording record(const config::Job& job, int steps, const JobSession::Load& load) {
  return RecordedRun(job, steps, load)();
}

RecordingBytes recording_bytes(const config::Job& job, int steps) {
  const Contents contents(job);
  std::int64_t start = 0;
  for (const RecordedTensor& tensor : contents.initial_parameters()) start += tensor.numel();
  std::int64_t step = 0;
  std::int64_t parts = 0;
  const bool decoder = config::info(job).chain;
  const std::vector<RecordedTensor> tensors = contents.tensors(0);
  for (const RecordedTensor& tensor : tensors) {
    step += tensor.numel();
    if (tensor.kind != Kind::kActivation) continue;
    const bool shared = decoder && job.parallel.sequence_parallel;
    const bool whole = !decoder && !contents.shared(&tensor - tensors.data()).spread;
    parts += tensor.numel() * (shared ? 1 : job.parallel.tp) * (whole ? job.parallel.cp : 1);
  }
  const int world = contents.mesh().world();
  const plan::PlanSet plan =
      plan::compile(contents.spec().program, contents.mesh(), model::recipe_of(job));
  for (std::size_t unit = 0; unit < contents.spec().units.size(); ++unit) {
    const mesh::AxisSet shards =
        plan::sharing_of(plan.mesh, plan.recipe, plan.program.units[unit]).shards;
    parts += 3 * world *
             (model::largest_numel(contents.spec().units[unit], job.parallel.tp) /
              plan.mesh.degree(shards));
  }
  constexpr std::int64_t kBytes = sizeof(double);
  return {.kept = (start + steps * step) * kBytes,
          .passing = parts * kBytes + world * plan::memory_account(plan, 0).peak_total};
}

}  // namespace trireme::train
