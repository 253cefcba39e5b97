#include "trireme/plan/saved.h"

#include <algorithm>

#include "trireme/plan/compile/placement.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {

std::vector<SavedRange> saved_ranges(const PlanSet& plan, int rank, bool trainable_only) {
  const mesh::Mesh& mesh = plan.mesh;
  std::vector<SavedRange> ranges;
  for (UnitId id = 0; id < static_cast<UnitId>(plan.program.units.size()); ++id) {
    const Unit& unit = plan.program.units[id];
    if (trainable_only && !unit.trainable) continue;
    // Where states are whole on every replica, each writes an equal share of them.
    const UnitSharing sharing = sharing_of(mesh, plan.recipe, unit);
    const bool whole = sharing.shards.empty();
    if (!whole && mesh.index_in_group(rank, sharing.rest) != 0) continue;
    const mesh::AxisSet owners = whole ? sharing.rest : sharing.shards;
    // Tied units are equal on all their stages.
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
    const Unit& unit = plan.program.units[range.unit];
    const std::int64_t count = range.end - range.begin;
    const DType type = has_master_copy(recipe, unit) ? recipe.master : param_type(recipe, unit);
    bytes += count * static_cast<std::int64_t>(size_of(type));
    if (unit.trainable) bytes += state_bytes(recipe, unit, count);
  }
  return bytes;
}

}  // namespace trireme::plan
