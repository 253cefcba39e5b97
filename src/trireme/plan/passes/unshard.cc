#include "trireme/plan/passes/unshard.h"

#include <algorithm>
#include <map>

namespace trireme::plan {
namespace {

struct Run {
  UnitId unit = -1;
  std::size_t begin = 0;  // first and last line that use the unit
  std::size_t end = 0;
};

bool same_pass(const Instr& a, const Instr& b) {
  return a.mb == b.mb && (a.verb == Verb::kForward) == (b.verb == Verb::kForward);
}

// In the order in which they begin.
std::vector<Run> runs(const Stage& stage, const List& list) {
  std::vector<Run> all;
  std::map<UnitId, std::size_t> open;  // runs that reach the previous computing line
  const Instr* previous = nullptr;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!uses_parameters(list[i])) continue;
    std::map<UnitId, std::size_t> reached;
    for (UnitId unit : stage.node(list[i].node).units) {
      const auto run = open.find(unit);
      if (run != open.end() && same_pass(*previous, list[i])) {
        all[run->second].end = i;
        reached[unit] = run->second;
      } else {
        reached[unit] = all.size();
        all.push_back({.unit = unit, .begin = i, .end = i});
      }
    }
    open = std::move(reached);
    previous = &list[i];
  }
  return all;
}

}  // namespace

List unshard(const Stage& stage, List list) {
  const mesh::AxisSet axes = stage.mesh.real(mesh::kShards);
  if (!data_parallel_row(stage.recipe.zero).sharded_params || axes.empty()) return list;
  const std::vector<Run> all = runs(stage, list);
  std::vector<std::size_t> places;  // lines at which runs begin
  for (const Run& run : all)
    if (places.empty() || places.back() != run.begin) places.push_back(run.begin);
  Insertion insertion(list);
  std::map<UnitId, std::size_t> free_from;  // first line before which a unit may be gathered again
  std::size_t position = 0;
  std::size_t place = 0;
  for (const Run& run : all) {
    while (places[place] != run.begin) ++place;
    const std::size_t ahead = std::min(place, static_cast<std::size_t>(stage.recipe.prefetch));
    // The dp lane gathers in the order of use.
    position = std::max({position, places[place - ahead], free_from[run.unit]});
    insertion.before(position,
                     {.verb = Verb::kUnshard, .lane = Lane::kDp, .unit = run.unit, .axes = axes});
    insertion.after(run.end, {.verb = Verb::kReshard, .unit = run.unit});
    free_from[run.unit] = run.end + 1;
  }
  return insertion.build();
}

}  // namespace trireme::plan
