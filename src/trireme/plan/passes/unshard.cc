#include "trireme/plan/passes/unshard.h"

#include <set>

#include "trireme/plan/passes/runs.h"

namespace trireme::plan {
namespace {

Instr gather(const Stage& stage, UnitId unit) {
  return {
      .verb = Verb::kUnshard, .lane = Lane::kDp, .unit = unit, .axes = stage.sharing(unit).shards};
}

// What an update changes on other ranks too. Parameters that leave memory leave it whole: they are gathered before.
bool stale_at_head(const Stage& stage, UnitId unit) {
  const Unit& one = stage.program.units[unit];
  return stage.sharing(unit).gathers_after && (one.trainable || one.ema_of >= 0) &&
         !stage.recipe.gathers_after_step && stage.recipe.offload.params == Tier::kNone;
}

void gather_stale(const Stage& stage, const std::vector<Run>& all, Insertion& insertion) {
  std::set<std::size_t> places;
  std::set<UnitId> seen;
  for (const Run& run : all) {
    places.insert(run.begin);
    if (!seen.insert(run.unit).second || places.size() <= kAhead + 1) continue;
    if (stale_at_head(stage, run.unit)) insertion.before(0, gather(stage, run.unit));
  }
}

}  // namespace

List unshard(const Stage& stage, List list) {
  std::vector<Run> all = runs(stage, list);
  Insertion insertion(list);
  gather_stale(stage, all, insertion);
  std::erase_if(all, [&](const Run& run) { return !stage.sharing(run.unit).gathers; });
  const std::vector<std::size_t> ahead = ahead_of(all, stage.recipe.prefetch);
  for (std::size_t i = 0; i < all.size(); ++i) {
    // The dp lane gathers in the order of use.
    insertion.before(ahead[i], gather(stage, all[i].unit));
    insertion.after(all[i].end, {.verb = Verb::kReshard, .unit = all[i].unit});
  }
  return insertion.build();
}

}  // namespace trireme::plan
