#include "trireme/exec/units/units.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/low_rank.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_types.h"

namespace trireme::exec {

using mesh::Axis;
using plan::TensorKind;

namespace {

void step_by_element(UnitState& unit, const UpdateArgs& args) {
  unit.change_stepped([&](std::int64_t begin, const at::Tensor& params) {
    const std::int64_t count = params.numel();
    std::vector<at::Tensor> states;
    for (std::size_t i = 0; i < unit.states.size(); ++i) {
      const std::int64_t block = unit.optimizer->states()[i].per_block ? unit.state_block : 1;
      states.push_back(unit.states[i].tensor(begin / block, blocks(count, block)));
    }
    unit.optimizer->update(params, unit.grad.tensor(begin, count), states,
                           unit.segments_of(begin, begin + count), args);
    unit.keep_in_bounds(begin, params);
  });
}

}  // namespace

Units::Units(const plan::PlanSet& plan, const std::vector<model::UnitSpec>& specs, int rank,
             at::Device device, const Groups& groups, const AwaySpace& space, Optimizer& optimizer)
    : plan_(plan),
      rank_(rank),
      groups_(groups),
      space_(space),
      memory_(std::make_unique<MemoryCount>(
          MemoryCount{.device = device, .host = space.host_bytes()})) {
  const plan::Recipe& recipe = plan.recipe;
  const int stage = plan.mesh.coordinate(rank, Axis::kPp);
  const auto chunks = static_cast<std::size_t>(plan::chunk_count(plan.program));
  units_.resize(specs.size());
  for (plan::UnitId id : plan::units_of_stage(plan.program, stage)) {
    const auto index = static_cast<std::size_t>(id);
    auto unit = std::make_unique<UnitState>();
    unit->spec = &specs[index];
    unit->trainable = plan.program.units[index].trainable;
    unit->optimizer = &optimizer.of(specs[index]);
    unit->sharing = plan::sharing_of(plan.mesh, recipe, plan.program.units[index]);
    const int shards = plan.mesh.degree(unit->sharing.shards);
    unit->leaves = plan::leaves_of(plan, id);
    unit->params_here = model::local_params(*unit->spec, tp_rank(), tp());
    const std::int64_t planned = plan.program.units[index].numel;
    unit->param_type = plan::param_type(recipe, plan.program.units[index]);
    unit->chunk = plan::norm_chunk(planned);
    unit->state_block = plan::state_block(planned);
    unit->part_count = plan::shard_numel(planned, shards);
    unit->part_begin = plan.mesh.index_in_group(rank, unit->sharing.shards) * unit->part_count;
    unit->padded = unit->part_count * shards;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      unit->chunks.push_back({.leaf = {}, .counter = GradientCounter(plan::summed_in_row(recipe))});

    unit->params = Window(unit->padded, unit->param_type, device);
    if (unit->trainable) unit->grads = Window(unit->padded, recipe.grads, device);
    std::int64_t offset = 0;
    for (const model::LocalParam& param : unit->params_here) {
      unit->offsets.push_back(offset);
      for (const model::Extent& extent : param.extents)
        if (!extent.owned)
          unit->foreign.emplace_back(offset + extent.local, offset + extent.local + extent.count);
      at::Tensor view = unit->params.view(offset, param.shape);
      if (unit->trainable) {
        view.set_requires_grad(true);
        view.mutable_grad() = unit->grads.view(offset, param.shape).variable_data();
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
    unit->extents = &space_.unit(id);
    unit->master_copy = plan::has_master_copy(recipe, plan.program.units[index]);
    unit->split = plan::splits_masters(recipe, plan.program.units[index]);
    if (unit->master_copy)
      unit->state_shapes.push_back({unit->part_count, unit->split ? DType::kI16 : recipe.master});
    if (unit->trainable)
      for (const StateSpec& state : unit->optimizer->states())
        unit->state_shapes.push_back(
            {state.per_block ? blocks(unit->part_count, unit->state_block) : unit->part_count,
             state.type.value_or(recipe.master)});
    unit->states.resize(unit->state_shapes.size() - unit->master_copy);
    allocate(id, *unit);
    units_[index] = std::move(unit);
  }
}

Units::~Units() = default;

// What is in memory between steps.
void Units::allocate(plan::UnitId id, UnitState& unit) {
  for (TensorKind tensors : {TensorKind::kStates, TensorKind::kParams, TensorKind::kGrads})
    unit.away[static_cast<std::size_t>(tensors)] = space_.away(id, tensors);
  if (plan_.program.units[id].by_matrix)
    unit.matrices.emplace(plan_, id, plan_.mesh.index_in_group(rank_, unit.sharing.shards));
  if (plan::gathers_codes(plan_.recipe, plan_.program.units[id]))
    unit.codes = plan::gathered_codes(plan_, id);
  for (TensorKind tensors : {TensorKind::kParams, TensorKind::kStates})
    if (!unit.is_away(tensors)) allocate(unit, tensors);
  if (unit.codes && unit.codes->within > 0)
    unit.kept = Flat(*memory_, unit.codes->kept(), DType::kU8);
  allocate_outer(id, unit);
  if (!plan::has_residual(plan_.recipe, plan_.program.units[id])) return;
  unit.residual =
      Flat(*memory_,
           plan::coded_reduction(plan_, id).residuals() * plan::residual_elements(plan_, rank_, id),
           plan_.recipe.coded->residual.value());
  unit.residual.zero();
  if (!plan::sums_at_low_rank(plan_.recipe)) return;
  unit.low_rank.start = Flat(*memory_, plan::low_rank(plan_, id).starts, DType::kF32);
  unit.low_rank.start.zero();
}

bool Units::holds(plan::UnitId unit) const { return units_[unit] != nullptr; }

UnitState& Units::at(plan::UnitId unit) const {
  TRIREME_CHECK(holds(unit), "rank {} does not hold unit {}", rank_, unit);
  return *units_[unit];
}

at::Tensor Units::param(plan::UnitId unit, int param) const { return at(unit).param_views[param]; }

void Units::unshard_begin(plan::UnitId id, mesh::AxisSet axes, int within) {
  UnitState& unit = at(id);
  TRIREME_CHECK(!unit.gathering, "unit {} is already being gathered", unit.spec->name);
  if (unit.sharing.gathers) unit.full = Flat(*memory_, unit.padded, unit.param_type);
  if (unit.codes) {
    unit.gather_codes(*memory_, groups_, axes, within);
  } else if (unit.sharing.gathers) {
    unit.gather = groups_.over(axes).all_gather(unit.part.buffer(), unit.full.buffer());
  } else {
    unit.gather = groups_.over(axes).all_gather(
        comm::Buffer{unit.full.at(unit.part_begin), unit.part_count, unit.full.type()},
        unit.full.buffer());
  }
  unit.gathering = true;
  unit.stale = false;
}

void Units::finish_unshard(plan::UnitId id) {
  UnitState& unit = at(id);
  if (!std::exchange(unit.gathering, false)) return;
  unit.gather.wait();
  if (unit.codes) unit.take_codes();
  unit.params.attach(unit.full);
}

void Units::gather_stale() {
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr || !units_[index]->stale) continue;
    unshard_begin(static_cast<plan::UnitId>(index), units_[index]->sharing.shards);
    finish_unshard(static_cast<plan::UnitId>(index));
  }
}

void Units::reshard(plan::UnitId id) {
  UnitState& unit = at(id);
  TRIREME_CHECK(
      (unit.sharing.gathers || unit.is_away(TensorKind::kParams)) && !unit.gathering && unit.full,
      "unit {} is not gathered", unit.spec->name);
  unit.params.detach();
  unit.full = Flat();
  if (unit.is_away(TensorKind::kParams)) unit.part = Flat();
}

void Units::open_gradient(plan::UnitId id, int chunk, bool first, ops::WeightGradients& gradients) {
  UnitState& unit = at(id);
  Flat& leaf = unit.chunks[chunk].leaf;
  TRIREME_CHECK(first == !leaf, "unit {} has {} gradient before a line that {} it", unit.spec->name,
                leaf ? "a" : "no", first ? "begins" : "adds to");
  if (first) {
    leaf = Flat(*memory_, unit.padded, plan_.recipe.grads);
    leaf.tensor(unit.numel, unit.padded - unit.numel).zero_();
  }
  unit.grads.attach(leaf);
  if (!first) return;
  for (const at::Tensor& param : unit.param_views) gradients.begin(param);
}

void Units::close_gradient(plan::UnitId id, int chunk, int sender_mbs) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  unit.grads.detach();
  ChunkGradient& gradient = unit.chunks[chunk];
  if (!unit.sharing.scatters_each) gradient.push(std::exchange(gradient.leaf, Flat()), sender_mbs);
}

at::Tensor Units::micro_batch_gradient(plan::UnitId id, int chunk) const {
  const UnitState& unit = at(id);
  return unit.chunks[chunk].leaf.tensor(0, unit.numel);
}

std::string Units::element_name(plan::UnitId id, std::int64_t element) const {
  const UnitState& unit = at(id);
  const auto next = std::ranges::upper_bound(unit.offsets, element);
  TRIREME_CHECK(next != unit.offsets.begin() && element < unit.numel, "unit {} has no element {}",
                unit.spec->name, element);
  const auto param = static_cast<std::size_t>(next - unit.offsets.begin()) - 1;
  return fmt::format("{}[{}]", unit.spec->params[param].name, element - unit.offsets[param]);
}

std::vector<double> Units::chunk_square_sums(plan::UnitId id) {
  UnitState& unit = at(id);
  if (!unit.square_sums.empty()) return unit.square_sums;  // it has left since
  if (!unit.grad) unit.grad = unit.collapse();
  return unit.chunk_square_sums(unit.grad);
}

void Units::update(plan::UnitId id, const UpdateArgs& args) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  UpdateArgs own = args;
  own.noise = mix(mix(args.noise, static_cast<std::uint64_t>(args.step)), hash64(unit.spec->name));
  own.state_block = unit.state_block;
  if (unit.matrices)
    step_by_matrix(unit, own);
  else
    step_by_element(unit, own);
  unit.stale = unit.sharing.gathers_after;
  if (unit.next_residual) unit.residual = std::move(unit.next_residual);
  if (unit.low_rank.next_start) unit.low_rank.start = std::move(unit.low_rank.next_start);
  end_update(unit);
}

void Units::skip_update(plan::UnitId id) {
  at::NoGradGuard no_grad;
  end_update(at(id));
}

void Units::average(plan::UnitId id, double momentum) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  const UnitState& followed = at(plan_.program.units[id].ema_of);
  unit.change_stepped([&](std::int64_t begin, const at::Tensor& values) {
    values.lerp_(followed.stepped(begin, values.numel()), 1 - momentum);
  });
  unit.follow_stepped();
}

void Units::end_update(UnitState& unit) {
  if (unit.master_copy) {
    if (unit.is_away(TensorKind::kParams)) allocate(unit, TensorKind::kParams);
    if (!unit.split) unit.round_master();
  }
  unit.grad = Flat();
  if (unit.matrices) unit.matrices->end();
  unit.next_residual = Flat();
  unit.low_rank.next_start = Flat();
  unit.square_sums.clear();
  unit.left.clear();
}

}  // namespace trireme::exec
