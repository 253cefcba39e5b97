#include "trireme/plan/passes/unshard.h"

#include <set>
#include <utility>

#include "trireme/plan/passes/runs.h"

namespace trireme::plan {
namespace {

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
    if (stale_at_head(stage, run.unit)) insertion.before(0, gather_of(stage, run.unit));
  }
}

}  // namespace

List unshard(const Stage& stage, List list) {
  std::vector<Run> all = runs(stage, list);
  Insertion insertion(list);
  gather_stale(stage, all, insertion);
  std::erase_if(all, [&](const Run& run) { return !stage.sharing(run.unit).gathers; });
  const std::vector<std::size_t> ahead = ahead_of(all, stage.recipe.prefetch);
  std::set<UnitId> kept;  // whose codes are in blocks of neighbours
  for (std::size_t i = 0; i < all.size(); ++i) {
    // The dp lane gathers in the order of use.
    Instr gather = gather_of(stage, all[i].unit);
    if (gather.coded && !kept.insert(all[i].unit).second)
      gather.within = stage.recipe.gather->within;
    insertion.before(ahead[i], std::move(gather));
    insertion.after(all[i].end, {.verb = Verb::kReshard, .unit = all[i].unit});
  }
  return insertion.build();
}

}  // namespace trireme::plan
