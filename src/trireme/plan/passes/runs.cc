#include "trireme/plan/passes/runs.h"

#include <algorithm>
#include <map>

namespace trireme::plan {
namespace {

bool same_pass(const Instr& a, const Instr& b) {
  return a.mb == b.mb && (a.verb == Verb::kForward) == (b.verb == Verb::kForward);
}

}  // namespace

std::vector<Run> runs(const Stage& stage, const List& list) {
  std::vector<Run> all;
  std::map<UnitId, std::size_t> open;  // runs that reach the previous computing line
  const Instr* previous = nullptr;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!reads_values(list[i]) || !uses_parameters(stage.node(list[i].node), list[i])) continue;
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

std::vector<std::size_t> ahead_of(const std::vector<Run>& runs, int prefetch) {
  std::vector<std::size_t> places;  // lines at which runs begin
  for (const Run& run : runs)
    if (places.empty() || places.back() != run.begin) places.push_back(run.begin);
  std::vector<std::size_t> result;
  std::map<UnitId, std::size_t> free_from;  // first line before which a unit may be brought again
  std::size_t position = 0;
  std::size_t place = 0;
  for (const Run& run : runs) {
    while (places[place] != run.begin) ++place;
    const std::size_t ahead = std::min(place, static_cast<std::size_t>(prefetch));
    position = std::max({position, places[place - ahead], free_from[run.unit]});
    result.push_back(position);
    free_from[run.unit] = run.end + 1;
  }
  return result;
}

}  // namespace trireme::plan
