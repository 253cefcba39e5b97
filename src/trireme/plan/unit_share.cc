#include "trireme/plan/unit_share.h"

#include <bit>

#include "trireme/plan/offload.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

UnitShare share_of(const PlanSet& plan, UnitId unit) {
  const Unit& one = plan.program.units[unit];
  const int shards = plan.mesh.degree(sharing_of(plan.mesh, plan.recipe, one).shards);
  const std::int64_t part = shard_numel(one.numel, shards);
  return {.part = part, .full = part * shards, .sharded = shards > 1};
}

int leaves_of(const PlanSet& plan, UnitId unit) {
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, plan.program.units[unit]);
  const int shards = plan.mesh.degree(sharing.shards);
  if (!plan.recipe.canonical || !sharing.scatters_each ||
      Away(plan.program, plan.recipe)(unit, TensorKind::kGrads))
    return 1;
  if (plan.recipe.group > 1) return sharing.shards.contains(mesh::Axis::kCp) ? 1 : shards;
  const bool aligned = std::has_single_bit(static_cast<unsigned>(shards));
  return aligned || !sharing.rest.empty() ? 1 : shards;
}

}  // namespace trireme::plan
