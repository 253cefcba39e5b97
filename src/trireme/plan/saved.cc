#include "trireme/plan/saved.h"

#include <algorithm>

#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/low_rank.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

// That the rank owns inside its island.
std::vector<SavedRange> ranges_of_island(const PlanSet& plan, int rank, bool trainable_only) {
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

// The first island saves what all of them have in common.
bool saves_common(const PlanSet& plan, int rank) {
  return !plan.recipe.outer || plan.mesh.coordinate(rank, mesh::Axis::kIsland) == 0;
}

}  // namespace

std::vector<SavedRange> saved_ranges(const PlanSet& plan, int rank, bool trainable_only) {
  if (!saves_common(plan, rank)) return {};
  return ranges_of_island(plan, rank, trainable_only);
}

std::int64_t saved_bytes(const PlanSet& plan, int rank, bool trainable_only) {
  const Recipe& recipe = plan.recipe;
  const bool common = saves_common(plan, rank);
  std::int64_t bytes = 0;
  for (const SavedRange& range : ranges_of_island(plan, rank, trainable_only)) {
    const Unit& unit = plan.program.units[range.unit];
    const std::int64_t count = range.end - range.begin;
    const std::int64_t params =
        count * static_cast<std::int64_t>(size_of(stored_type(recipe, unit)));
    if (common || has_outer(recipe, unit)) bytes += params;
    if (unit.trainable) bytes += state_bytes(recipe, unit, count);
    if (sums_at_low_rank(recipe) && codes(recipe, unit)) {
      const std::int64_t block = low_rank(plan, range.unit).start_block;
      bytes += ((range.end + block - 1) / block - range.begin / block) *
               static_cast<std::int64_t>(sizeof(float));
    }
    if (!has_outer(recipe, unit)) continue;
    if (common) bytes += (recipe.outer->delay > 0 ? 3 : 2) * params;
    if (const auto coded = coded_merge(plan, range.unit); coded && coded->sums.residual)
      bytes += count * static_cast<std::int64_t>(size_of(*coded->sums.residual));
  }
  for (UnitId id = 0; id < static_cast<UnitId>(plan.program.units.size()); ++id) {
    if (!has_residual(recipe, plan.program.units[id])) continue;
    const CodedReduction reduction = coded_reduction(plan, id);
    for (const ResidualRange& range : residual_ranges(plan, rank, id))
      bytes += reduction.residuals() * (range.end - range.begin) *
               static_cast<std::int64_t>(size_of(*reduction.sums.residual));
  }
  return bytes;
}

}  // namespace trireme::plan
