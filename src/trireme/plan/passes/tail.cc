#include "trireme/plan/passes/tail.h"

#include <set>

namespace trireme::plan {

List tail(const Stage& stage, List list) {
  const std::vector<UnitId> units = units_of_stage(stage.program, stage.index);
  std::set<UnitId> gathered;  // by the next step
  for (const Instr& line : list)
    if (line.verb == Verb::kUnshard) gathered.insert(line.unit);
  const auto changed = [&](Verb verb, UnitId unit) {
    list.push_back(
        {.verb = verb,
         .unit = unit,
         .residual = verb == Verb::kStep && has_residual(stage.recipe, stage.program.units[unit])});
    if (const UnitSharing sharing = stage.sharing(unit);
        sharing.gathers_after && !gathered.contains(unit))
      list.push_back(
          {.verb = Verb::kUnshard, .lane = Lane::kDp, .unit = unit, .axes = sharing.shards});
  };
  for (UnitId unit : units)
    if (stage.program.units[unit].trainable && stages_of_unit(stage.program, unit).size() > 1)
      list.push_back(
          {.verb = Verb::kSyncTied, .lane = Lane::kDp, .unit = unit, .axes = mesh::Axis::kPp});
  list.push_back({.verb = Verb::kGradNorm, .lane = Lane::kDp});
  for (UnitId unit : units)
    if (stage.program.units[unit].trainable) changed(Verb::kStep, unit);
  for (UnitId unit : units)
    if (stage.program.units[unit].ema_of >= 0) changed(Verb::kEma, unit);
  return list;
}

}  // namespace trireme::plan
