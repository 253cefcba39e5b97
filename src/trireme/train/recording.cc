#include "trireme/train/recording.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "trireme/arch/describe.h"
#include "trireme/arch/layout.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/mesh/zigzag.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/microbatch.h"

namespace trireme::train {
namespace {

using mesh::Axis;

// The tensors of a step: values in the order in which nodes write them, then the gradients and the updates of all
// parameters. Initial parameters have the places of updates.
class Contents {
 public:
  explicit Contents(const config::Job& job)
      : job_(job), mesh_(arch::mesh_of(job)), spec_(arch::describe(job)) {
    job_.run.skip_non_finite = 0;
    value_at_.resize(spec_.program.values.size());
    for (const plan::Node& node : spec_.program.nodes)
      for (plan::ValueId value : node.writes)
        value_at_[static_cast<std::size_t>(value)] = values_++;
    for (const arch::UnitSpec& unit : spec_.units) {
      unit_at_.push_back(params_);
      params_ += unit.params.size();
    }
  }

  std::size_t size() const { return values_ + 2 * params_; }
  std::size_t updates() const { return values_ + params_; }  // the first one's place
  std::size_t of_value(plan::ValueId value) const {
    return value_at_[static_cast<std::size_t>(value)];
  }
  std::size_t of_param(Kind kind, plan::UnitId unit, std::size_t param) const {
    return (kind == Kind::kGradient ? values_ : updates()) +
           unit_at_[static_cast<std::size_t>(unit)] + param;
  }

  // In that order, without values.
  std::vector<RecordedTensor> tensors(int step) const {
    std::vector<RecordedTensor> all = activations(step);
    for (const Kind kind : {Kind::kGradient, Kind::kUpdate})
      std::ranges::move(of_params(step, kind), std::back_inserter(all));
    TRIREME_CHECK(all.size() == size(), "a node of {} writes several values", spec_.program.name);
    return all;
  }
  std::vector<RecordedTensor> initial_parameters() const {
    return of_params(kStart, Kind::kParameter);
  }

  const config::Job& job() const { return job_; }
  const mesh::Mesh& mesh() const { return mesh_; }
  const arch::ModelSpec& spec() const { return spec_; }

 private:
  std::vector<RecordedTensor> activations(int step) const {
    const config::Precision& precision = job_.precision;
    const std::int64_t samples = job_.run.global_batch;
    std::vector<RecordedTensor> all;
    for (const plan::Node& node : spec_.program.nodes) {
      RecordedTensor tensor{.step = step, .kind = Kind::kActivation, .name = node.name};
      tensor.type = precision.compute;
      tensor.shape = {samples, job_.model.seq_len, job_.model.hidden};
      if (node.loss) {
        tensor.type = precision.grads.value();
        tensor.shape = {samples / job_.run.micro_batch};
      }
      all.push_back(std::move(tensor));
    }
    return all;
  }

  std::vector<RecordedTensor> of_params(int step, Kind kind) const {
    const config::Precision& precision = job_.precision;
    const DType type = (kind == Kind::kGradient ? precision.grads : precision.master).value();
    std::vector<RecordedTensor> all;
    for (const arch::UnitSpec& unit : spec_.units)
      for (const arch::ParamSpec& param : unit.params)
        all.push_back(
            {.step = step, .kind = kind, .name = param.name, .type = type, .shape = param.shape});
    return all;
  }

  config::Job job_;  // whose first step that is not finite is the last
  mesh::Mesh mesh_;
  arch::ModelSpec spec_;
  std::size_t values_ = 0;
  std::size_t params_ = 0;
  std::vector<std::size_t> value_at_;  // by ValueId
  std::vector<std::size_t> unit_at_;   // of its first parameter
};

// What one rank has of a step.
class RankRecorder : public exec::Observer {
 public:
  RankRecorder(const Contents& contents, int rank)
      : contents_(contents), rank_(rank), parts_(contents.size()) {}

  void on_activation(plan::ValueId value, std::int64_t micro_batch,
                     const at::Tensor& tensor) override {
    const auto loss = arch::Extent{.global = micro_batch, .count = 1};
    add(contents_.of_value(value),
        tensor.dim() == 0 ? std::vector{loss} : rows(micro_batch, tensor), copy(tensor));
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

  // Parts of one tensor, one a micro-batch or slice; they are gone from here.
  std::vector<Part> take(std::size_t tensor) {
    return std::exchange(parts_[tensor], std::vector<Part>());
  }

 private:
  void add(std::size_t tensor, std::vector<arch::Extent> extents, const at::Tensor& values) {
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
    auto within = arch::extents_within(contents_.spec().units[static_cast<std::size_t>(slice.unit)],
                                       units.tp_rank(), units.tp(), slice.offset, values.numel());
    for (std::size_t param = 0; param < within.size(); ++param)
      add(contents_.of_param(kind, slice.unit, param), std::move(within[param]), values);
  }

  // Rows of an activation are tokens of [samples, tokens] flattened: this cp rank's, and where tp ranks share
  // rows those of this one (ops/tensor_parallel.h).
  std::vector<arch::Extent> rows(std::int64_t micro_batch, const at::Tensor& tensor) const {
    const config::Job& job = contents_.job();
    const int tp = contents_.mesh().coordinate(rank_, Axis::kTp);
    const std::vector<std::int64_t> positions = mesh::zigzag_positions(
        job.model.seq_len, contents_.mesh().coordinate(rank_, Axis::kCp), job.parallel.cp);
    const std::int64_t d = job.model.hidden;
    const std::int64_t tokens = std::ssize(positions);
    const std::int64_t per = tensor.numel() / d;
    const bool shared = job.parallel.tp > 1 && job.parallel.sequence_parallel;
    const std::int64_t first = shared ? tp * per : 0;
    const std::int64_t end = std::min(first + per, job.run.micro_batch * tokens);
    std::vector<arch::Extent> extents;
    for (std::int64_t row = first; row < end; ++row) {
      const std::int64_t sample = micro_batch * job.run.micro_batch + row / tokens;
      const std::int64_t global =
          (sample * job.model.seq_len + positions[static_cast<std::size_t>(row % tokens)]) * d;
      if (!extents.empty() && extents.back().global + extents.back().count == global)
        extents.back().count += d;
      else
        extents.push_back({.global = global, .local = (row - first) * d, .count = d});
    }
    return extents;
  }

  const Contents& contents_;
  int rank_;
  std::vector<std::vector<Part>> parts_;  // by tensor
  std::vector<at::Tensor> parameters_;    // of each slice, after the last step
};

bool equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Puts parts, by rank, in their places.
void merge(std::vector<Part> parts, RecordedTensor& whole) {
  if (parts.empty()) return;
  whole.values.resize(static_cast<std::size_t>(whole.numel()));
  std::vector<bool> held(whole.values.size());
  std::size_t count = 0;
  for (Part& part : parts) {
    const double* const values = part.values.data_ptr<double>();
    bool stray = false;
    for (const arch::Extent& extent : part.extents)
      for (std::int64_t i = 0; i < extent.count; ++i) {
        const auto global = static_cast<std::size_t>(extent.global + i);
        const double value = values[extent.local + i];
        if (held[global]) {
          stray = stray || !equal(whole.values[global], value);
          continue;
        }
        whole.values[global] = value;
        held[global] = true;
        ++count;
      }
    whole.holders.push_back({.rank = part.rank, .extents = part.extents});
    if (stray) whole.strays.push_back(std::move(part));
  }
  TRIREME_CHECK(count == held.size(), "{} of {} elements of {} are recorded", count, held.size(),
                whole.name);
}

// The losses of cp ranks are of their own tokens: their sums, by the first one's parts.
std::vector<Part> add_over_context(std::vector<Part> parts, const mesh::Mesh& mesh) {
  std::vector<Part> sums;
  for (Part& part : parts) {
    const int first = mesh.peer(part.rank, Axis::kCp, 0);
    if (part.rank == first) {
      sums.push_back(std::move(part));
      continue;
    }
    const auto sum = std::ranges::find_if(sums, [&](const Part& other) {
      return other.rank == first && other.extents[0].global == part.extents[0].global;
    });
    TRIREME_CHECK(sum != sums.end(), "rank {} has a loss that rank {} has not", part.rank, first);
    sum->values.add_(part.values);
  }
  return sums;
}

// All ranks of one run, step after step.
class RecordedRun {
 public:
  RecordedRun(const config::Job& job, int steps, const JobSession::Load& load)
      : contents_(job), steps_(steps), load_(load) {
    recording_.compute = job.precision.compute;
    recording_.micro_batch = job.run.micro_batch;
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
    ranks_[static_cast<std::size_t>(world.rank())]->on_parameters(session.session().units());
    put_together(world, contents_.updates(), 0);
    std::size_t first = contents_.size() - contents_.updates();
    bool finite = true;
    for (int step = 0; step < steps_ && finite; ++step, first += contents_.size()) {
      finite = run_step(session, step, world.rank());
      put_together(world, 0, first);
    }
  }

  // The tensors from `begin` on of what ranks have now, which are the recording's from `first` on.
  void put_together(comm::World& world, std::size_t begin, std::size_t first) {
    world.exchange("recorded");
    for (std::size_t i = begin + static_cast<std::size_t>(world.rank()); i < contents_.size();
         i += static_cast<std::size_t>(world.size()))
      put_together(i, recording_.tensors[first + i - begin]);
    world.exchange("put together");
  }

  // False where the step ended in a loss or norm that is not finite, as it does on every rank.
  bool run_step(JobSession& session, int step, int rank) {
    RankRecorder& recorder = *ranks_[static_cast<std::size_t>(rank)];
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

  void put_together(std::size_t tensor, RecordedTensor& whole) {
    std::vector<Part> parts;
    for (const auto& rank : ranks_)
      for (Part& part : rank->take(tensor)) parts.push_back(std::move(part));
    const bool loss = whole.kind == Kind::kActivation && whole.shape.size() == 1;
    merge(loss ? add_over_context(std::move(parts), contents_.mesh()) : std::move(parts), whole);
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

int RecordedTensor::rank_of(std::int64_t element) const {
  for (const Part& part : holders)
    for (const arch::Extent& extent : part.extents)
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
  const bool shared_rows = job.parallel.sequence_parallel;
  const int shards = job.parallel.zero > 0 ? contents.mesh().degree(mesh::kShards) : 1;
  for (const RecordedTensor& tensor : contents.tensors(0)) {
    step += tensor.numel();
    if (tensor.kind == Kind::kActivation)
      parts += tensor.numel() * (shared_rows ? 1 : job.parallel.tp);
  }
  const int world = contents.mesh().world();
  for (const arch::UnitSpec& unit : contents.spec().units)
    parts += 3 * world * (arch::largest_numel(unit, job.parallel.tp) / shards);
  const plan::PlanSet plan =
      plan::compile(contents.spec().program, contents.mesh(), arch::recipe_of(job));
  constexpr std::int64_t kBytes = sizeof(double);
  return {.kept = (start + steps * step) * kBytes,
          .passing = parts * kBytes + world * plan::memory_account(plan, 0).peak_total};
}

}  // namespace trireme::train
