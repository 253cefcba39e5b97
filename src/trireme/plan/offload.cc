#include "trireme/plan/offload.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include "trireme/plan/binary_counter.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

std::int64_t element_bytes(DType type) { return static_cast<std::int64_t>(size_of(type)); }

// How many sums of a chunk's micro-batches leave at most at different levels of the counter.
int most_levels(int pushed, int row) {
  const bool open = row > 1 && pushed > 0;
  return open + static_cast<int>(std::bit_width(static_cast<unsigned>(pushed / row)));
}

}  // namespace

Tier tier_of(const Offload& offload, TensorKind tensors) {
  switch (tensors) {
    case TensorKind::kNone: break;
    case TensorKind::kStates: return offload.optimizer;
    case TensorKind::kParams: return offload.params;
    case TensorKind::kGrads: return offload.grads;
  }
  return Tier::kNone;
}

Away::Away(const Program& program, const Recipe& recipe) {
  const Offload& offload = recipe.offload;
  for (std::vector<bool>& pieces : away_) pieces.resize(program.units.size());
  std::vector<UnitId> stepped;  // those with something the optimizer keeps
  for (std::size_t unit = 0; unit < program.units.size(); ++unit) {
    const Unit& one = program.units[unit];
    const auto away = [&](TensorKind tensors) {
      return away_[static_cast<std::size_t>(tensors)][unit];
    };
    away(TensorKind::kParams) = offload.params != Tier::kNone;
    away(TensorKind::kGrads) = offload.grads != Tier::kNone && one.trainable;
    if (one.trainable && (has_master_copy(recipe, one) || recipe.optimizer_states > 0))
      stepped.push_back(static_cast<UnitId>(unit));
  }
  if (offload.optimizer != Tier::kNone) send_states(program, std::move(stepped), offload.ratio);
}

void Away::send_states(const Program& program, std::vector<UnitId> stepped, double ratio) {
  const auto numel = [&](UnitId unit) { return program.units[unit].numel; };
  std::ranges::stable_sort(stepped, std::greater(), numel);
  std::vector<double> all(static_cast<std::size_t>(stage_count(program))), gone(all.size());
  for (UnitId unit : stepped)
    for (int stage : stages_of_unit(program, unit)) all[stage] += static_cast<double>(numel(unit));
  for (UnitId unit : stepped) {
    const std::vector<int> stages = stages_of_unit(program, unit);
    const auto size = static_cast<double>(numel(unit));
    const bool takes = std::ranges::all_of(stages, [&](int stage) {
      const auto at = static_cast<std::size_t>(stage);
      return gone[at] + size <= ratio * all[at];
    });
    if (!takes) continue;
    away_[static_cast<std::size_t>(TensorKind::kStates)][unit] = true;
    for (int stage : stages) gone[stage] += size;
  }
  const double whole = std::accumulate(all.begin(), all.end(), 0.0);
  if (whole > 0) states_share_ = std::accumulate(gone.begin(), gone.end(), 0.0) / whole;
}

bool Away::any(TensorKind tensors) const {
  return std::ranges::find(away_[static_cast<std::size_t>(tensors)], true) !=
         away_[static_cast<std::size_t>(tensors)].end();
}

std::int64_t UnitSpace::states_bytes() const {
  return std::accumulate(states.begin(), states.end(), std::int64_t{0});
}

UnitSpace space_of(const PlanSet& plan, UnitId unit, int stage) {
  const Recipe& recipe = plan.recipe;
  const DataParallelRow row = data_parallel_row(recipe.zero);
  const UnitShare share = share_of(plan, unit);
  const Unit& one = plan.program.units[unit];
  UnitSpace space;
  if (one.trainable) {
    space.states = state_tensors(recipe, one, share.part);
    if (has_master_copy(recipe, one))
      space.states.insert(space.states.begin(), share.part * element_bytes(recipe.master));
  }
  space.params = (share.sharded && row.sharded_params ? share.part : share.full) *
                 element_bytes(param_type(recipe, one));
  space.gradient = share.part * element_bytes(recipe.grads);
  space.level =
      (share.sharded && row.reduce_each_mb ? share.part : share.full) * element_bytes(recipe.grads);
  std::vector<int> leaves(static_cast<std::size_t>(chunk_count(plan.program)));
  const GradientFlow flow = gradient_flow(plan.program);
  for (NodeId id : gradient_users(plan.program, flow, unit, stage)) {
    const Node& node = plan.program.nodes[id];
    leaves[node.chunk] = rounds(node, recipe.micro_batches);
  }
  // The last sum of all stays until it is reduced.
  const bool several = std::ranges::count(leaves, 0) + 1 < std::ssize(leaves);
  for (int count : leaves)
    space.levels.push_back(count > 0 ? most_levels(count - !several, summed_in_row(recipe)) : 0);
  return space;
}

ValueSlots value_slots(const Program& program, std::span<const Instr> list) {
  ValueSlots slots;
  std::vector<int> free;
  std::map<std::pair<ValueId, int>, int> back;  // reloaded, not yet read
  for (const Instr& line : list) {
    if (line.value >= 0 && line.lane == Lane::kD2h && line.verb == Verb::kOffload) {
      const std::int64_t bytes = program.values[line.value].bytes;
      const auto fits = std::ranges::find(free, bytes, [&](int slot) { return slots.bytes[slot]; });
      int slot = static_cast<int>(slots.bytes.size());
      if (fits == free.end()) {
        slots.bytes.push_back(bytes);
      } else {
        slot = *fits;
        free.erase(fits);
      }
      slots.of[{line.value, line.mb}] = slot;
    } else if (line.value >= 0 && line.verb == Verb::kReload && line.lane == Lane::kH2d) {
      back[{line.value, line.mb}] = slots.of.at({line.value, line.mb});
    } else if (reads_values(line)) {
      for (ValueId value : program.nodes[line.node].reads) {
        const auto read = back.find({value, line.mb});
        if (read == back.end()) continue;
        free.push_back(read->second);
        back.erase(read);
      }
    }
  }
  return slots;
}

std::int64_t host_bytes(const PlanSet& plan, int rank) {
  const Offload& offload = plan.recipe.offload;
  const int stage = plan.mesh.coordinate(rank, mesh::Axis::kPp);
  const Away away(plan.program, plan.recipe);
  std::int64_t sum = 0;
  for (UnitId unit : units_of_stage(plan.program, stage)) {
    const UnitSpace space = space_of(plan, unit, stage);
    const auto here = [&](TensorKind tensors) {
      return tier_of(offload, tensors) == Tier::kHost && away(unit, tensors);
    };
    if (here(TensorKind::kStates))
      for (std::int64_t bytes : space.states) sum += whole_pages(bytes);
    if (here(TensorKind::kParams)) sum += whole_pages(space.params);
    if (here(TensorKind::kGrads))
      sum += whole_pages(space.gradient) +
             whole_pages(space.level) *
                 std::accumulate(space.levels.begin(), space.levels.end(), std::int64_t{0});
  }
  if (offload.activations == Tier::kHost)
    for (std::int64_t bytes : value_slots(plan.program, plan.list(rank)).bytes)
      sum += whole_pages(bytes);
  return sum;
}

std::int64_t transit_bytes(const PlanSet& plan, int stage, const Instr& line) {
  if (line.value >= 0) return plan.program.values[line.value].bytes;
  const UnitSpace space = space_of(plan, line.unit, stage);
  switch (line.tensors) {
    case TensorKind::kNone: break;
    case TensorKind::kStates: return space.states_bytes();
    case TensorKind::kParams: return space.params;
    case TensorKind::kGrads:
      if (line.mb < 0) return space.gradient;
      return line.verb == Verb::kOffload
                 ? space.level
                 : space.level * levels_met(line.mb, summed_in_row(plan.recipe));
  }
  return 0;
}

bool takes_memory(const Instr& line) {
  return computes(line) || line.verb == Verb::kStep ||
         (line.verb == Verb::kReload && line.lane == Lane::kH2d);
}

int staged_units(const PlanSet& plan) {
  const bool gathered = plan.recipe.offload.params != Tier::kNone &&
                        std::ranges::any_of(plan.program.units, [&](const Unit& unit) {
                          return sharing_of(plan.mesh, plan.recipe, unit).gathers_after;
                        });
  return plan.recipe.offload.prefetch + 1 + gathered;
}

}  // namespace trireme::plan
