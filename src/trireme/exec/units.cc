#include "trireme/exec/units.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/unit_state.h"
#include "trireme/plan/placement.h"
#include "trireme/plan/shard.h"

namespace trireme::exec {

using mesh::Axis;

namespace {

constexpr std::int64_t kDrawn = 1 << 20;  // elements of initial values that exist at a time

// The next `count` initial values, in fp64.
at::Tensor draw(const arch::Init& init, std::int64_t count, at::Generator generator) {
  at::Tensor value = at::empty({count}, at::TensorOptions().dtype(at::kDouble));
  switch (init.kind) {
    case arch::Init::Kind::kZeros: return value.zero_();
    case arch::Init::Kind::kOnes: return value.fill_(1);
    case arch::Init::Kind::kNormal: return value.normal_(0, init.std, std::move(generator));
  }
  TRIREME_CHECK(false, "initial values of kind {}", static_cast<int>(init.kind));
}

}  // namespace

Units::Units(const plan::PlanSet& plan, const std::vector<arch::UnitSpec>& specs, int rank,
             at::Device device, const Groups& groups, Updater& updater)
    : plan_(plan),
      rank_(rank),
      groups_(groups),
      updater_(updater),
      memory_(std::make_unique<MemoryCount>(MemoryCount{.device = device})) {
  const plan::Recipe& recipe = plan.recipe;
  const plan::DataParallelRow row = plan::data_parallel_row(recipe.zero);
  const int shards = plan.mesh.degree(mesh::kShards);
  const int shard = plan.mesh.index_in_group(rank, mesh::kShards);
  const int stage = plan.mesh.coordinate(rank, Axis::kPp);
  const auto chunks = static_cast<std::size_t>(plan::chunk_count(plan.program));
  units_.resize(specs.size());
  for (plan::UnitId id : plan::units_of_stage(plan.program, stage)) {
    const auto index = static_cast<std::size_t>(id);
    auto unit = std::make_unique<UnitState>();
    unit->spec = &specs[index];
    unit->trainable = plan.program.units[index].trainable;
    unit->states_sharded = row.sharded_states && shards > 1;
    unit->params_sharded = row.sharded_params && shards > 1;
    unit->reduce_each_mb = row.reduce_each_mb && shards > 1;
    unit->params_here = arch::local_params(*unit->spec, tp_rank(), tp());
    const std::int64_t planned = plan.program.units[index].numel;
    unit->chunk = plan::norm_chunk(planned);
    unit->part_count = plan::shard_numel(planned, unit->states_sharded ? shards : 1);
    unit->part_begin = unit->states_sharded ? shard * unit->part_count : 0;
    unit->padded = unit->part_count * (unit->states_sharded ? shards : 1);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      unit->chunks.push_back({.leaf = {}, .counter = GradientCounter(recipe.canonical)});

    unit->params = Window(unit->padded, recipe.compute, device);
    if (unit->trainable) unit->grads = Window(unit->padded, recipe.grads, device);
    std::int64_t offset = 0;
    for (const arch::LocalParam& param : unit->params_here) {
      unit->offsets.push_back(offset);
      for (const arch::Extent& extent : param.extents)
        if (!extent.owned)
          unit->foreign.emplace_back(offset + extent.local, offset + extent.local + extent.count);
      at::Tensor view = unit->params.view(offset, param.shape);
      if (unit->trainable) {
        view.set_requires_grad(true);
        view.mutable_grad() = unit->grads.view(offset, param.shape);
      }
      unit->param_views.push_back(view);
      offset += param.numel();
    }
    unit->numel = offset;
    TRIREME_CHECK(offset <= planned, "unit {} has {} elements here, the plan {}", unit->spec->name,
                  offset, planned);
    unit->params.detach();
    if (unit->trainable) unit->grads.detach();

    unit->segments = unit->part_segments();
    const auto allocate = [&](std::int64_t count, DType type) {
      Flat flat(*memory_, count, type);
      flat.zero();
      return flat;
    };
    if (unit->params_sharded) {
      unit->part = allocate(unit->part_count, recipe.compute);
    } else {
      unit->full = allocate(unit->padded, recipe.compute);
      unit->params.attach(unit->full);
    }
    if (recipe.master != recipe.compute && unit->trainable)
      unit->master = allocate(unit->part_count, recipe.master);
    if (unit->trainable)
      for (std::size_t s = 0; s < updater.state_names().size(); ++s)
        unit->states.push_back(allocate(unit->part_count, recipe.master));
    units_[index] = std::move(unit);
  }
}

Units::~Units() = default;

bool Units::holds(plan::UnitId unit) const {
  return units_[static_cast<std::size_t>(unit)] != nullptr;
}

UnitState& Units::at(plan::UnitId unit) const {
  TRIREME_CHECK(holds(unit), "rank {} does not hold unit {}", rank_, unit);
  return *units_[static_cast<std::size_t>(unit)];
}

at::Tensor Units::param(plan::UnitId unit, int param) const {
  return at(unit).param_views[static_cast<std::size_t>(param)];
}

void Units::initialise(std::uint64_t seed,
                       const std::function<bool(plan::UnitId, int, at::Tensor&)>& initial) {
  at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    UnitState& unit = *units_[index];
    for (std::size_t p = 0; p < unit.spec->params.size(); ++p) {
      const arch::ParamSpec& param = unit.spec->params[p];
      // Memory that is not written takes none.
      at::Tensor given = at::empty(param.shape, at::TensorOptions().dtype(at::kDouble));
      const bool own = initial(static_cast<plan::UnitId>(index), static_cast<int>(p), given);
      at::Generator generator =
          at::make_generator<at::CPUGeneratorImpl>(mix(seed, hash64(param.name)));
      for (std::int64_t begin = 0; begin < param.numel(); begin += kDrawn) {
        const std::int64_t count = std::min(kDrawn, param.numel() - begin);
        const at::Tensor piece =
            own ? given.view({-1}).narrow(0, begin, count) : draw(param.init, count, generator);
        const at::Tensor value = piece.to(comm::scalar_type(plan_.recipe.master));
        unit.for_stretches(p, begin, count,
                           [&](std::int64_t global, std::int64_t local, std::int64_t length) {
                             unit.place(local, value.narrow(0, global - begin, length));
                           });
      }
    }
  }
}

void Units::unshard_begin(plan::UnitId id, mesh::AxisSet axes) {
  UnitState& unit = at(id);
  TRIREME_CHECK(!unit.gathering, "unit {} is already being gathered", unit.spec->name);
  comm::Group& group = groups_.over(axes);
  if (unit.params_sharded) {
    unit.full = Flat(*memory_, unit.padded, plan_.recipe.compute);
    unit.gather = group.all_gather(unit.part.buffer(), unit.full.buffer());
  } else {
    unit.gather = group.all_gather(
        comm::Buffer{unit.full.at(unit.part_begin), unit.part_count, unit.full.type()},
        unit.full.buffer());
  }
  unit.gathering = true;
}

void Units::finish_unshard(plan::UnitId id) {
  UnitState& unit = at(id);
  if (!std::exchange(unit.gathering, false)) return;
  unit.gather.wait();
  unit.params.attach(unit.full);
}

void Units::reshard(plan::UnitId id) {
  UnitState& unit = at(id);
  TRIREME_CHECK(unit.params_sharded && !unit.gathering && unit.full, "unit {} is not gathered",
                unit.spec->name);
  unit.params.detach();
  unit.full = Flat();
}

void Units::open_gradient(plan::UnitId id, int chunk) {
  UnitState& unit = at(id);
  Flat& leaf = unit.chunks[static_cast<std::size_t>(chunk)].leaf;
  if (!leaf) {
    leaf = Flat(*memory_, unit.padded, plan_.recipe.grads);
    leaf.zero();
  }
  unit.grads.attach(leaf);
}

void Units::close_gradient(plan::UnitId id, int chunk) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  unit.grads.detach();
  ChunkGradient& gradient = unit.chunks[static_cast<std::size_t>(chunk)];
  if (!unit.reduce_each_mb) gradient.counter.push(std::exchange(gradient.leaf, Flat()));
}

void Units::reduce_begin(plan::UnitId id, const plan::Instr& line) {
  at::NoGradGuard no_grad;
  finish_reduce(id);
  UnitState& unit = at(id);
  Flat& leaf = unit.chunks[static_cast<std::size_t>(line.chunk)].leaf;
  unit.chunk_on_way = line.chunk;
  comm::Group& group =
      line.verb == plan::Verb::kSyncTied ? groups_.tied(id) : groups_.over(line.axes);
  if (line.axes == mesh::AxisSet(Axis::kTp)) {
    unit.each_mb = line.mb >= 0;
    if (!unit.each_mb) unit.grad = unit.collapse();
    unit.sent = Flat(*memory_, plan_.program.units[static_cast<std::size_t>(id)].tp_partial,
                     plan_.recipe.grads);
    unit.sent.zero();
    unit.copy_parts(unit.each_mb ? leaf : unit.grad, unit.sent, /*back=*/false);
    unit.reduce = group.all_reduce(unit.sent.buffer(), comm::Reduce::kSum);
    unit.reduction = Reduction::kParts;
    return;
  }
  if (!line.scatter) {
    if (!unit.grad) unit.grad = unit.collapse();
    unit.reduce = group.all_reduce(unit.grad.buffer(), comm::Reduce::kSum);
    unit.reduction = Reduction::kAllReduce;
    return;
  }
  unit.received = Flat(*memory_, unit.part_count, plan_.recipe.grads);
  if (line.mb >= 0)
    unit.sent = std::exchange(leaf, Flat());
  else
    unit.sent = unit.grad ? std::exchange(unit.grad, Flat()) : unit.collapse();
  unit.reduce =
      group.reduce_scatter(unit.sent.buffer(), unit.received.buffer(), comm::Reduce::kSum);
  unit.reduction = line.mb >= 0 ? Reduction::kScatterMicroBatch : Reduction::kScatter;
}

void Units::finish_reduce(plan::UnitId id) {
  UnitState& unit = at(id);
  if (unit.reduction == Reduction::kNone) return;
  unit.reduce.wait();
  ChunkGradient& gradient = unit.chunks[static_cast<std::size_t>(unit.chunk_on_way)];
  if (unit.reduction == Reduction::kParts)
    unit.copy_parts(unit.each_mb ? gradient.leaf : unit.grad, unit.sent, /*back=*/true);
  unit.sent = Flat();
  switch (std::exchange(unit.reduction, Reduction::kNone)) {
    case Reduction::kScatterMicroBatch:
      gradient.counter.push(std::exchange(unit.received, Flat()));
      break;
    case Reduction::kScatter: unit.grad = std::exchange(unit.received, Flat()); break;
    case Reduction::kAllReduce:
    case Reduction::kParts:
    case Reduction::kNone: break;
  }
}

std::vector<double> Units::chunk_square_sums(plan::UnitId id) {
  UnitState& unit = at(id);
  if (!unit.grad) unit.grad = unit.collapse();
  return unit.chunk_square_sums();
}

std::vector<StateSlice> Units::gradient_slices() const {
  std::vector<StateSlice> result;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    const UnitState& unit = *units_[index];
    const std::int64_t count = std::min(unit.part_count, unit.numel - unit.part_begin);
    if (!unit.trainable || count <= 0) continue;
    TRIREME_CHECK(unit.grad, "the gradient of unit {} is not reduced", unit.spec->name);
    result.push_back({.unit = static_cast<plan::UnitId>(index),
                      .kind = "grad",
                      .offset = unit.part_begin,
                      .tensor = unit.grad.tensor(0, count)});
  }
  return result;
}

void Units::update(plan::UnitId id, const UpdateArgs& args) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  std::vector<at::Tensor> states;
  for (const Flat& state : unit.states) states.push_back(state.tensor(0, unit.part_count));
  updater_.update(unit.stepped(), unit.grad.tensor(0, unit.part_count), states, unit.segments,
                  args);
  if (unit.master) unit.computed().copy_(unit.master.tensor(0, unit.part_count));
  unit.grad = Flat();
}

std::vector<StateSlice> Units::slices(bool owned) const {
  const int replica = plan_.mesh.coordinate(rank_, Axis::kDpReplicate);
  const int stage = plan_.mesh.coordinate(rank_, Axis::kPp);
  std::vector<StateSlice> result;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    const UnitState& unit = *units_[index];
    // Tied units are alike on all their stages.
    if (owned && plan::stages_of_unit(plan_.program, static_cast<plan::UnitId>(index))[0] != stage)
      continue;
    std::int64_t begin = 0;  // within the part
    std::int64_t end = unit.part_count;
    if (owned && unit.states_sharded && replica != 0) continue;
    if (owned && !unit.states_sharded) {
      const std::int64_t share = plan::shard_numel(unit.numel, plan_.mesh.degree(mesh::kReplicas));
      begin = std::min(share * plan_.mesh.index_in_group(rank_, mesh::kReplicas), end);
      end = std::min(begin + share, end);
    }
    end = std::min(end, unit.numel - unit.part_begin);
    if (begin >= end) continue;
    const auto add = [&](const std::string& kind, const at::Tensor& part) {
      result.push_back({.unit = static_cast<plan::UnitId>(index),
                        .kind = kind,
                        .offset = unit.part_begin + begin,
                        .tensor = part.narrow(0, begin, end - begin)});
    };
    add("param", unit.stepped());
    for (std::size_t s = 0; s < unit.states.size(); ++s)
      add(updater_.state_names()[s], unit.states[s].tensor(0, unit.part_count));
  }
  return result;
}

std::vector<StateSlice> Units::owned_slices() const { return slices(true); }
std::vector<StateSlice> Units::local_slices() const { return slices(false); }

void Units::refresh() {
  at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    UnitState& unit = *units_[index];
    if (unit.master) unit.computed().copy_(unit.master.tensor(0, unit.part_count));
    if (unit.states_sharded && !unit.params_sharded) {
      unshard_begin(static_cast<plan::UnitId>(index), plan_.mesh.real(mesh::kShards));
      finish_unshard(static_cast<plan::UnitId>(index));
    }
  }
}

}  // namespace trireme::exec
