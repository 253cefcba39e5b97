#include "trireme/plan/passes/tail.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/plan/compile/matrix_updates.h"
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

// Steps of a stage's units. While the updates of one unit's matrices are computed, the directions of the next move to
// their owners and the updates of the one before move back. What waits outside memory comes for one unit at a time.
class Steps {
 public:
  Steps(const Stage& stage, const std::vector<UnitId>& units, const Merged& merged, List& list,
        Changes& changes)
      : stage_(stage), merged_(merged), list_(list), changes_(changes) {
    const Offload& offload = stage.recipe.offload;
    const bool away = offload.optimizer != Tier::kNone || offload.params != Tier::kNone ||
                      offload.grads != Tier::kNone;
    ahead_ = away ? 0 : 1;
    for (UnitId unit : units)
      if (exchanges_updates(stage.sharing(unit), stage.program.units[unit]))
        exchanged_.push_back(unit);
  }

  void run(const std::vector<UnitId>& units) {
    send(ahead_);
    for (UnitId unit : units)
      if (stage_.program.units[unit].trainable) update(unit);
    if (returning_ >= 0) step(returning_);
  }

 private:
  void update(UnitId unit) {
    if (!stage_.program.units[unit].by_matrix) return step(unit);
    const bool exchanged = contains(exchanged_, unit);
    if (exchanged) send(++updated_ + ahead_);
    list_.push_back({.verb = Verb::kUpdateMatrices, .unit = unit});
    if (!exchanged) return step(unit);
    exchange(unit, /*back=*/true);
    if (ahead_ == 0) return step(unit);
    if (const UnitId before = std::exchange(returning_, unit); before >= 0) step(before);
  }

  // The directions of the first `count` units.
  void send(std::size_t count) {
    for (; sent_ < std::min(count, exchanged_.size()); ++sent_)
      exchange(exchanged_[sent_], /*back=*/false);
  }

  void exchange(UnitId unit, bool back) {
    list_.push_back({.verb = Verb::kExchangeUpdate,
                     .lane = Lane::kDp,
                     .unit = unit,
                     .axes = stage_.sharing(unit).shards,
                     .scatter = back});
  }

  void step(UnitId unit) {
    changes_.change({.verb = Verb::kStep,
                     .unit = unit,
                     .residual = has_residual(stage_.recipe, stage_.program.units[unit])},
                    /*last=*/!merged_.changes(unit));
  }

  const Stage& stage_;
  const Merged& merged_;
  List& list_;
  Changes& changes_;
  std::vector<UnitId> exchanged_;
  std::size_t ahead_ = 0, sent_ = 0, updated_ = 0;
  UnitId returning_ = -1;  // its updates are on their way back
};

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
  Steps(stage, units, merged, list, changes).run(units);
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
