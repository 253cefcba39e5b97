#include "trireme/plan/saved.h"

#include <algorithm>

#include "trireme/plan/compile/placement.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {

std::vector<SavedRange> saved_ranges(const PlanSet& plan, int rank, bool trainable_only) {
  const mesh::Mesh& mesh = plan.mesh;
  // Where states are whole on every replica, each writes an equal share of them.
  const bool whole = plan.recipe.zero == 0 || mesh.degree(mesh::kShards) == 1;
  const mesh::AxisSet owners = whole ? mesh::kReplicas : mesh::kShards;
  std::vector<SavedRange> ranges;
  if (!whole && mesh.coordinate(rank, mesh::Axis::kDpReplicate) != 0) return ranges;
  for (UnitId id = 0; id < static_cast<UnitId>(plan.program.units.size()); ++id) {
    const Unit& unit = plan.program.units[static_cast<std::size_t>(id)];
    if (trainable_only && !unit.trainable) continue;
    // Tied units are alike on all their stages.
    if (stages_of_unit(plan.program, id)[0] != mesh.coordinate(rank, mesh::Axis::kPp)) continue;
    const std::int64_t share = shard_numel(unit.numel, mesh.degree(owners));
    const std::int64_t begin = share * mesh.index_in_group(rank, owners);
    const std::int64_t end = std::min(begin + share, unit.numel);
    if (begin < end) ranges.push_back({.unit = id, .begin = begin, .end = end});
  }
  return ranges;
}

std::int64_t saved_bytes(const PlanSet& plan, int rank, bool trainable_only) {
  const Recipe& recipe = plan.recipe;
  std::int64_t bytes = 0;
  for (const SavedRange& range : saved_ranges(plan, rank, trainable_only)) {
    const Unit& unit = plan.program.units[static_cast<std::size_t>(range.unit)];
    const std::int64_t count = range.end - range.begin;
    const DType type = has_master_copy(recipe, unit) ? recipe.master : param_type(recipe, unit);
    bytes += count * static_cast<std::int64_t>(size_of(type));
    if (unit.trainable) bytes += state_bytes(recipe, unit, count);
  }
  return bytes;
}

}  // namespace trireme::plan
