// Units for code that fills, saves and loads them: one slice of one state at a time.
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/scratch/pages.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/units/initial_values.h"
#include "trireme/exec/units/masters.h"
#include "trireme/exec/units/stored_rows.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/low_rank.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/shard.h"

namespace trireme::exec {

using mesh::Axis;

// Elements of a flat outside memory, in whole pages from the page of the first to the page of the last, because writes
// are whole pages.
struct Units::Pages {
  Pages(const AwayRange& away, std::int64_t first, const StateSlice& slice) {
    const auto width = static_cast<std::int64_t>(size_of(slice.type));
    const std::int64_t begin = (away.first + first) * width;
    const std::int64_t end = begin + slice.count * width;
    const std::int64_t page = begin / scratch::kPage * scratch::kPage;
    skipped = (begin - page) / width;
    behind = (std::min(scratch::whole_pages(end), away.extent.bytes) - end) / width;
    extent = {.offset = away.extent.offset + page, .bytes = away.extent.bytes - page};
  }
  scratch::Extent extent;
  std::int64_t skipped = 0;  // elements of the page before the first
  std::int64_t behind = 0;   // and of the page after the last
};

namespace {
constexpr plan::TensorKind kPersistent[] = {plan::TensorKind::kParams, plan::TensorKind::kStates};

// States of outer steps besides their weights, which are "param".
constexpr const char* kVelocity = "outer_velocity";
constexpr const char* kMean = "outer_mean";
constexpr const char* kResidual = "outer_residual";

// Factors that start the next step, for elements [begin, end) of the unit. Every rank has all of them.
StateSlice start_slice(const plan::PlanSet& plan, std::size_t index, const UnitState& unit,
                       std::int64_t begin, std::int64_t end) {
  const auto id = static_cast<plan::UnitId>(index);
  const std::int64_t block = plan::low_rank(plan, id).start_block;
  return {.unit = id,
          .kind = fmt::format("low_rank{}", plan.recipe.coded->codec.rank),
          .offset = begin / block,
          .count = blocks(end, block) - begin / block,
          .type = unit.low_rank.start.type(),
          .block = block,
          .begins = true};
}

// Without the island that has it.
std::string own_kind(const StateSlice& slice) {
  return slice.island < 0 ? slice.kind : slice.kind.substr(slice.kind.find('.') + 1);
}

}  // namespace

void Units::initialise(std::uint64_t seed,
                       const std::function<at::Tensor(plan::UnitId, int)>& initial) {
  at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    UnitState& unit = *units_[index];
    const auto id = static_cast<plan::UnitId>(index);
    for (plan::TensorKind tensors : kPersistent)
      if (unit.is_away(tensors)) allocate(unit, tensors);
    // What follows another begins as a copy of it.
    const plan::UnitId followed = plan_.program.units[index].ema_of;
    const plan::UnitId source = followed >= 0 ? followed : id;
    for (std::size_t p = 0; p < unit.spec->params.size(); ++p) {
      const model::ParamSpec& param = this->at(source).spec->params[p];
      if (param.matrix) {
        const at::Tensor bytes = initial_rows(param, seed);
        unit.for_ranges(p, 0, param.numel(),
                        [&](std::int64_t global, std::int64_t local, std::int64_t length) {
                          unit.place(local, bytes.narrow(0, global, length));
                        });
        continue;
      }
      const at::Tensor given =
          param.norms_of ? initial_norms(param, seed) : initial(source, static_cast<int>(p));
      TRIREME_CHECK(!given.defined() || given.sizes() == at::IntArrayRef(param.shape),
                    "the initial value of {} has another shape", param.name);
      const at::Generator generator = initial_generator(param, seed);
      for (std::int64_t begin = 0; begin < param.numel(); begin += kDrawn) {
        const std::int64_t count = std::min(kDrawn, param.numel() - begin);
        const at::Tensor shard = given.defined() ? given.reshape({-1}).narrow(0, begin, count)
                                                 : initial_values(param, begin, count, generator);
        const at::Tensor value = shard.to(comm::scalar_type(plan_.recipe.master));
        unit.for_ranges(p, begin, count,
                        [&](std::int64_t global, std::int64_t local, std::int64_t length) {
                          unit.place(local, value.narrow(0, global - begin, length));
                        });
      }
    }
    if (unit.outer.weights)
      unit.outer.weights.tensor(0, unit.part_count).copy_(unit.stepped(0, unit.part_count));
    for (plan::TensorKind tensors : kPersistent)
      if (unit.is_away(tensors)) leave(id, tensors);
  }
  // Other ranks have the masters of what these compute with.
  for (std::size_t index = 0; index < units_.size(); ++index)
    if (units_[index] != nullptr && units_[index]->codes) refresh(static_cast<plan::UnitId>(index));
}

std::vector<StateSlice> Units::gradient_slices() const {
  std::vector<StateSlice> result;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    const UnitState& unit = *units_[index];
    const std::int64_t count = std::min(unit.part_count, unit.numel - unit.part_begin);
    if (!unit.trainable || count <= 0) continue;
    TRIREME_CHECK(unit.grad || unit.is_away(plan::TensorKind::kGrads),
                  "the gradient of unit {} is not reduced", unit.spec->name);
    result.push_back({.unit = static_cast<plan::UnitId>(index),
                      .kind = "grad",
                      .offset = unit.part_begin,
                      .count = count,
                      .type = plan_.recipe.grads});
  }
  return result;
}

std::vector<StateSlice> Units::slices(bool owned) const {
  const int stage = plan_.mesh.coordinate(rank_, Axis::kPp);
  std::vector<StateSlice> result;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    const UnitState& unit = *units_[index];
    finish_outer_exchange(static_cast<plan::UnitId>(index));
    // Tied units are equal on all their stages.
    if (owned && plan::stages_of_unit(plan_.program, static_cast<plan::UnitId>(index))[0] != stage)
      continue;
    std::int64_t begin = 0;  // within the part
    std::int64_t end = unit.part_count;
    const bool sharded = !unit.sharing.shards.empty();
    const mesh::AxisSet rest = unit.sharing.rest;
    if (owned && sharded && plan_.mesh.index_in_group(rank_, rest) != 0) continue;
    if (owned && !sharded) {
      // Whole blocks, as a shard has.
      const std::int64_t share =
          plan::shard_numel(plan_.program.units[index].numel, plan_.mesh.degree(rest));
      begin = std::min(share * plan_.mesh.index_in_group(rank_, rest), end);
      end = std::min(begin + share, end);
    }
    end = std::min(end, unit.numel - unit.part_begin);
    if (unit.low_rank.start && !owned)
      result.push_back(start_slice(plan_, index, unit, 0, unit.numel));
    if (begin >= end) continue;
    if (unit.low_rank.start && owned)
      result.push_back(
          start_slice(plan_, index, unit, unit.part_begin + begin, unit.part_begin + end));
    // Islands have weights and states of their own, and in common what merging keeps.
    const bool merged = plan::has_outer(plan_.recipe, plan_.program.units[index]);
    const int island = merged ? plan_.mesh.coordinate(rank_, Axis::kIsland) : -1;
    const bool common = !owned || plan_.mesh.index_in_group(rank_, unit.sharing.islands) == 0;
    const auto add = [&](const std::string& kind, DType type, std::int64_t block, int of) {
      const std::int64_t from = begin / block;
      result.push_back({.unit = static_cast<plan::UnitId>(index),
                        .kind = of < 0 ? kind : fmt::format("island{}.{}", of, kind),
                        .offset = unit.part_begin / block + from,
                        .count = blocks(end, block) - from,
                        .type = type,
                        .block = block,
                        .island = of});
    };
    const DType type = unit.master_copy ? plan_.recipe.master : unit.param_type;
    if (common) add("param", type, 1, -1);
    if (common && merged) add(kVelocity, type, 1, -1);
    if (common && merged && plan::merge_bytes(plan_, static_cast<plan::UnitId>(index)) == 0)
      add(kMean, type, 1, -1);
    if (merged) add("param", type, 1, island);
    if (unit.outer.residual) add(kResidual, unit.outer.residual.type(), 1, island);
    if (!unit.trainable) continue;
    for (const StateSpec& state : unit.optimizer->states())
      add(state.name, state.type.value_or(plan_.recipe.master),
          state.per_block ? unit.state_block : 1, island);
  }
  add_residuals(result);
  return result;
}

// Each element of each sender's residual is on one rank only.
void Units::add_residuals(std::vector<StateSlice>& slices) const {
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr || !units_[index]->residual) continue;
    const auto id = static_cast<plan::UnitId>(index);
    const plan::CodedReduction reduction = plan::coded_reduction(plan_, id);
    const std::vector<plan::ResidualRange> ranges = plan::residual_ranges(plan_, rank_, id);
    for (int residual = 0; residual < reduction.residuals(); ++residual) {
      const int number = plan::residual_number(plan_, rank_, id, residual);
      for (const auto& [begin, end, at] : ranges)
        slices.push_back({.unit = id,
                          .kind = residual_kind(number),
                          .offset = begin,
                          .count = end - begin,
                          .type = units_[index]->residual.type(),
                          .sender = number,
                          .senders = reduction.sums.residuals});
    }
  }
}

at::Tensor Units::residual(const StateSlice& slice) const {
  const plan::CodedReduction reduction = plan::coded_reduction(plan_, slice.unit);
  const std::vector<plan::ResidualRange> ranges = plan::residual_ranges(plan_, rank_, slice.unit);
  const auto range = std::ranges::find(ranges, slice.offset, &plan::ResidualRange::begin);
  int index = 0;
  while (index < reduction.residuals() &&
         plan::residual_number(plan_, rank_, slice.unit, index) != slice.sender)
    ++index;
  TRIREME_CHECK(range != ranges.end() && index < reduction.residuals(),
                "{} of unit {} does not begin at element {} here", slice.kind, slice.unit,
                slice.offset);
  const std::int64_t each = plan::residual_elements(plan_, rank_, slice.unit);
  return at(slice.unit).residual.tensor(index * each + range->at, slice.count);
}

std::string residual_kind(int sender) { return fmt::format("residual{}", sender); }

std::vector<StateSlice> Units::owned_slices() const { return slices(true); }
std::vector<StateSlice> Units::local_slices() const { return slices(false); }

// All but parameters. Its first element is the unit's part_begin-th, or of the block of that.
at::Tensor Units::held(const UnitState& unit, const std::string& kind) const {
  if (kind == "grad") return unit.grad.tensor(0, unit.part_count);
  if (kind == kResidual) return unit.outer.residual.tensor(0, unit.part_count);
  const Flat& flat = unit.states[state_index(unit, kind)];
  return flat.tensor(0, flat.count());
}

std::size_t Units::state_index(const UnitState& unit, const std::string& kind) const {
  const std::vector<StateSpec>& states = unit.optimizer->states();
  const auto state = std::ranges::find(states, kind, &StateSpec::name);
  TRIREME_CHECK(state != states.end() && unit.trainable, "unit {} has no {}", unit.spec->name,
                kind);
  return static_cast<std::size_t>(state - states.begin());
}

// Where it waits, if it is not in memory, from the first element on that held() has.
std::optional<Units::AwayRange> Units::waiting(const UnitState& unit,
                                               const std::string& kind) const {
  const UnitExtents& extents = *unit.extents;
  if (kind == "grad") {
    if (!unit.is_away(plan::TensorKind::kGrads)) return std::nullopt;
    return AwayRange{.tensors = plan::TensorKind::kGrads, .extent = extents.gradient};
  }
  if (kind == "param" && !unit.master_copy) {
    if (!unit.is_away(plan::TensorKind::kParams)) return std::nullopt;
    const std::int64_t before = unit.sharing.gathers ? 0 : unit.part_begin;
    return AwayRange{
        .tensors = plan::TensorKind::kParams, .extent = extents.params, .first = before};
  }
  if (!unit.is_away(plan::TensorKind::kStates)) return std::nullopt;
  const std::size_t number = kind == "param" ? 0 : unit.master_copy + state_index(unit, kind);
  return AwayRange{.tensors = plan::TensorKind::kStates, .extent = extents.states[number]};
}

const Flat& Units::outer(plan::UnitId id, const std::string& kind) const {
  const UnitState& unit = at(id);
  return kind == kVelocity ? unit.outer.velocity
         : kind == kMean   ? unit.outer.mean
                           : unit.outer.weights;
}

at::Tensor Units::read(const StateSlice& slice) const {
  if (slice.sender >= 0) return residual(slice);
  const UnitState& unit = at(slice.unit);
  if (slice.begins) return unit.low_rank.start.tensor(slice.offset, slice.count);
  const std::int64_t first = slice.offset - unit.part_begin / slice.block;
  if (unit.outer.weights && slice.island < 0 && slice.kind != "grad")
    return outer(slice.unit, slice.kind).tensor(first, slice.count);
  const std::string kind = own_kind(slice);
  const std::optional<AwayRange> away = waiting(unit, kind);
  if (!away && kind == "param") return unit.stepped(first, slice.count);
  if (!away) return held(unit, kind).narrow(0, first, slice.count);
  for (const scratch::Ticket& ticket : unit.left) ticket.wait();
  const Pages pages(*away, first, slice);
  at::Tensor memory = at::empty({pages.skipped + slice.count},
                                at::TensorOptions().dtype(comm::scalar_type(slice.type)));
  space_.of(away->tensors)
      .read(pages.extent, memory.data_ptr(), static_cast<std::int64_t>(memory.nbytes()))
      .wait();
  return memory.narrow(0, pages.skipped, slice.count).to(device());
}

void Units::write(const StateSlice& slice, const at::Tensor& values) {
  at::NoGradGuard no_grad;
  if (slice.sender >= 0 || slice.begins) {
    read(slice).copy_(values);
    return;
  }
  UnitState& unit = at(slice.unit);
  const std::string kind = own_kind(slice);
  const bool own = !unit.outer.weights || slice.island >= 0;
  const std::optional<AwayRange> away = waiting(unit, kind);
  if (!away && own && kind == "param" && unit.split)
    return unit.set_stepped(slice.offset - unit.part_begin, values.to(device()).contiguous());
  if (!away) {
    read(slice).copy_(values);
    return;
  }
  // Together with what lies around it on its pages.
  const Pages pages(*away, slice.offset - unit.part_begin / slice.block, slice);
  StateSlice whole = slice;
  whole.offset -= pages.skipped;
  whole.count += pages.skipped + pages.behind;
  const bool part = whole.count > slice.count;
  const at::Tensor memory = part ? read(whole).cpu() : values.cpu().contiguous();
  if (part) memory.narrow(0, pages.skipped, slice.count).copy_(values);
  space_.of(away->tensors)
      .write(pages.extent, memory.data_ptr(), static_cast<std::int64_t>(memory.nbytes()))
      .wait();
}

void Units::refresh() {
  for (std::size_t index = 0; index < units_.size(); ++index)
    if (units_[index] != nullptr) refresh(static_cast<plan::UnitId>(index));
}

// Parameters that derive from a second copy, or from parts on other ranks.
void Units::refresh(plan::UnitId id) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  const bool gathered = !unit.sharing.shards.empty() && !unit.sharing.gathers;
  if ((!unit.master_copy || unit.split) && !gathered) return;
  if (unit.is_away(plan::TensorKind::kParams)) come(id, plan::TensorKind::kParams);
  if (unit.master_copy && !unit.split) {
    if (unit.is_away(plan::TensorKind::kStates)) come(id, plan::TensorKind::kStates);
    unit.round_master();
    if (unit.is_away(plan::TensorKind::kStates)) leave(id, plan::TensorKind::kStates);
  }
  if (gathered) {
    unshard_begin(id, unit.sharing.shards);
    finish_unshard(id);
  }
  if (unit.is_away(plan::TensorKind::kParams)) leave(id, plan::TensorKind::kParams);
}

}  // namespace trireme::exec
