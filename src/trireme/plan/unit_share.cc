#include "trireme/plan/unit_share.h"

#include <bit>

#include "trireme/plan/offload.h"
#include "trireme/plan/shard.h"

namespace trireme::plan {

UnitShare share_of(const PlanSet& plan, UnitId unit) {
  const int shards = plan.mesh.degree(mesh::kShards);
  const bool sharded = data_parallel_row(plan.recipe.zero).sharded_states && shards > 1;
  const std::int64_t part =
      shard_numel(plan.program.units[static_cast<std::size_t>(unit)].numel, sharded ? shards : 1);
  return {.part = part, .full = sharded ? part * shards : part, .sharded = sharded};
}

int leaves_of(const PlanSet& plan, UnitId unit) {
  const int shards = plan.mesh.degree(mesh::kShards);
  const bool aligned = std::has_single_bit(static_cast<unsigned>(shards));
  if (aligned || plan.mesh.degree(mesh::Axis::kDpReplicate) > 1 || !plan.recipe.canonical ||
      !data_parallel_row(plan.recipe.zero).reduce_each_mb ||
      Away(plan.program, plan.recipe)(unit, Piece::kGrads))
    return 1;
  return shards;
}

}  // namespace trireme::plan
