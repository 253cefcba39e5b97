#include "trireme/plan/passes/tail.h"

#include <set>
#include <utility>

#include "trireme/plan/outer_steps.h"

namespace trireme::plan {
namespace {

// Lines that change units, and gathers of what they change: after the last change, for units that no line of the next
// step gathers.
class Changes {
 public:
  Changes(const Stage& stage, List& list) : stage_(stage), list_(list) {
    for (const Instr& line : list)
      if (line.verb == Verb::kUnshard) gathered_.insert(line.unit);
  }

  void change(Instr line, bool last) {
    const UnitId unit = line.unit;
    list_.push_back(std::move(line));
    const UnitSharing sharing = stage_.sharing(unit);
    if (last && sharing.gathers_after && !gathered_.contains(unit))
      list_.push_back(gather_of(stage_, unit));
  }

 private:
  const Stage& stage_;
  List& list_;
  std::set<UnitId> gathered_;  // by the next step
};

// Units of this stage in fragments that the step applies, and in those that it sends.
struct Merged {
  std::set<UnitId> applied, sent;
  bool at_once = false;
  bool changes(UnitId unit) const {
    return applied.contains(unit) || (at_once && sent.contains(unit));
  }
};

Merged merged_units(const Stage& stage, const std::vector<UnitId>& units) {
  if (!stage.recipe.outer) return {};
  const OuterWork& work = stage.recipe.outer->work;
  const std::vector<int> fragments =
      fragments_of_units(stage.program, stage.recipe.outer->fragments);
  Merged merged{.at_once = work.at_once};
  for (UnitId unit : units) {
    if (contains(work.applied, fragments[unit])) merged.applied.insert(unit);
    if (contains(work.sent, fragments[unit])) merged.sent.insert(unit);
  }
  return merged;
}

}  // namespace

List tail(const Stage& stage, List list) {
  const std::vector<UnitId> units = units_of_stage(stage.program, stage.index);
  const Merged merged = merged_units(stage, units);
  Changes changes(stage, list);
  for (UnitId unit : units)
    if (stage.program.units[unit].trainable && stages_of_unit(stage.program, unit).size() > 1)
      list.push_back(
          {.verb = Verb::kSyncTied, .lane = Lane::kDp, .unit = unit, .axes = mesh::Axis::kPp});
  list.push_back({.verb = Verb::kGradNorm, .lane = Lane::kDp});
  for (UnitId unit : units)
    if (stage.program.units[unit].trainable)
      changes.change({.verb = Verb::kStep,
                      .unit = unit,
                      .residual = has_residual(stage.recipe, stage.program.units[unit])},
                     /*last=*/!merged.changes(unit));
  for (UnitId unit : units)
    if (stage.program.units[unit].ema_of >= 0)
      changes.change({.verb = Verb::kEma, .unit = unit}, /*last=*/true);
  for (UnitId unit : merged.applied)
    changes.change({.verb = Verb::kOuterStep, .unit = unit},
                   /*last=*/!(merged.at_once && merged.sent.contains(unit)));
  for (UnitId unit : merged.sent)
    list.push_back({.verb = Verb::kOuterReduce,
                    .lane = Lane::kDp,
                    .unit = unit,
                    .axes = stage.sharing(unit).islands});
  if (merged.at_once)
    for (UnitId unit : merged.sent)
      changes.change({.verb = Verb::kOuterStep, .unit = unit}, /*last=*/true);
  return list;
}

}  // namespace trireme::plan
