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
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/placement.h"
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

constexpr std::int64_t kDrawn = 1 << 20;  // elements of initial values that exist at a time

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
      const at::Tensor given = initial(source, static_cast<int>(p));
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
    for (plan::TensorKind tensors : kPersistent)
      if (unit.is_away(tensors)) leave(id, tensors);
  }
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
    if (begin >= end) continue;
    const auto add = [&](const std::string& kind, DType type, std::int64_t block) {
      const std::int64_t from = begin / block;
      result.push_back({.unit = static_cast<plan::UnitId>(index),
                        .kind = kind,
                        .offset = unit.part_begin / block + from,
                        .count = blocks(end, block) - from,
                        .type = type,
                        .block = block});
    };
    add("param", unit.master_copy ? plan_.recipe.master : unit.param_type, 1);
    if (!unit.trainable) continue;
    for (const StateSpec& state : optimizer_.states())
      add(state.name, state.type.value_or(plan_.recipe.master),
          state.per_block ? unit.state_block : 1);
  }
  add_residuals(result);
  return result;
}

// Each element of each sender's residual is on one rank only.
void Units::add_residuals(std::vector<StateSlice>& slices) const {
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr || !units_[index]->residual) continue;
    const UnitState& unit = *units_[index];
    const auto id = static_cast<plan::UnitId>(index);
    const plan::CodedReduction reduction = plan::coded_reduction(plan_, id);
    const std::int64_t begin = reduction.count == unit.padded ? 0 : unit.part_begin;
    const std::int64_t count = std::min(reduction.count, unit.numel - begin);
    const int first =
        plan_.mesh.index_in_group(rank_, plan::coded_axes(unit.sharing)) * reduction.own();
    for (int sender = first; sender < first + reduction.own() && count > 0; ++sender)
      slices.push_back({.unit = id,
                        .kind = residual_kind(sender),
                        .offset = begin,
                        .count = count,
                        .type = unit.residual.type(),
                        .sender = sender,
                        .senders = reduction.sums.senders});
  }
}

at::Tensor Units::residual(const StateSlice& slice) const {
  const UnitState& unit = at(slice.unit);
  const plan::CodedReduction reduction = plan::coded_reduction(plan_, slice.unit);
  const std::int64_t begin = reduction.count == unit.padded ? 0 : unit.part_begin;
  return unit.residual.tensor(
      slice.sender % reduction.own() * reduction.count + slice.offset - begin, slice.count);
}

std::string residual_kind(int sender) { return fmt::format("residual{}", sender); }

std::vector<StateSlice> Units::owned_slices() const { return slices(true); }
std::vector<StateSlice> Units::local_slices() const { return slices(false); }

// All but parameters. Its first element is the unit's part_begin-th, or of the block of that.
at::Tensor Units::held(const UnitState& unit, const std::string& kind) const {
  if (kind == "grad") return unit.grad.tensor(0, unit.part_count);
  const Flat& flat = unit.states[state_index(unit, kind)];
  return flat.tensor(0, flat.count());
}

std::size_t Units::state_index(const UnitState& unit, const std::string& kind) const {
  const std::vector<StateSpec>& states = optimizer_.states();
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

at::Tensor Units::read(const StateSlice& slice) const {
  if (slice.sender >= 0) return residual(slice);
  const UnitState& unit = at(slice.unit);
  const std::int64_t first = slice.offset - unit.part_begin / slice.block;
  const std::optional<AwayRange> away = waiting(unit, slice.kind);
  if (!away && slice.kind == "param") return unit.stepped(first, slice.count);
  if (!away) return held(unit, slice.kind).narrow(0, first, slice.count);
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
  if (slice.sender >= 0) {
    residual(slice).copy_(values);
    return;
  }
  UnitState& unit = at(slice.unit);
  const std::optional<AwayRange> away = waiting(unit, slice.kind);
  if (!away && slice.kind == "param" && unit.split)
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

// Parameters that derive from a second copy, or from parts on other ranks.
void Units::refresh() {
  at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    if (units_[index] == nullptr) continue;
    UnitState& unit = *units_[index];
    const auto id = static_cast<plan::UnitId>(index);
    const bool gathered = !unit.sharing.shards.empty() && !unit.sharing.gathers;
    if ((!unit.master_copy || unit.split) && !gathered) continue;
    if (unit.is_away(plan::TensorKind::kParams)) come(id, plan::TensorKind::kParams);
    if (unit.master_copy && !unit.split) {
      if (unit.is_away(plan::TensorKind::kStates)) come(id, plan::TensorKind::kStates);
      round_masters(unit.master.tensor(0, unit.part_count), unit.computed(0, unit.part_count));
      if (unit.is_away(plan::TensorKind::kStates)) leave(id, plan::TensorKind::kStates);
    }
    if (gathered) {
      unshard_begin(id, unit.sharing.shards);
      finish_unshard(id);
    }
    if (unit.is_away(plan::TensorKind::kParams)) leave(id, plan::TensorKind::kParams);
  }
}

}  // namespace trireme::exec
