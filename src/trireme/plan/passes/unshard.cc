#include "trireme/plan/passes/unshard.h"

#include "trireme/plan/passes/runs.h"

namespace trireme::plan {

List unshard(const Stage& stage, List list) {
  const mesh::AxisSet axes = stage.mesh.real(mesh::kShards);
  if (!data_parallel_row(stage.recipe.zero).sharded_params || axes.empty()) return list;
  const std::vector<Run> all = runs(stage, list);
  const std::vector<std::size_t> ahead = ahead_of(all, stage.recipe.prefetch);
  Insertion insertion(list);
  for (std::size_t i = 0; i < all.size(); ++i) {
    // The dp lane gathers in the order of use.
    insertion.before(
        ahead[i], {.verb = Verb::kUnshard, .lane = Lane::kDp, .unit = all[i].unit, .axes = axes});
    insertion.after(all[i].end, {.verb = Verb::kReshard, .unit = all[i].unit});
  }
  return insertion.build();
}

}  // namespace trireme::plan
