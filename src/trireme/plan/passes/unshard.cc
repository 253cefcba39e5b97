#include "trireme/plan/passes/unshard.h"

#include "trireme/plan/passes/runs.h"

namespace trireme::plan {

List unshard(const Stage& stage, List list) {
  std::vector<Run> all = runs(stage, list);
  std::erase_if(all, [&](const Run& run) { return !stage.sharing(run.unit).gathers; });
  const std::vector<std::size_t> ahead = ahead_of(all, stage.recipe.prefetch);
  Insertion insertion(list);
  for (std::size_t i = 0; i < all.size(); ++i) {
    // The dp lane gathers in the order of use.
    insertion.before(ahead[i], {.verb = Verb::kUnshard,
                                .lane = Lane::kDp,
                                .unit = all[i].unit,
                                .axes = stage.sharing(all[i].unit).shards});
    insertion.after(all[i].end, {.verb = Verb::kReshard, .unit = all[i].unit});
  }
  return insertion.build();
}

}  // namespace trireme::plan
