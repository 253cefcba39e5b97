#include "trireme/plan/check/outer_check.h"

#include "trireme/plan/outer_steps.h"

namespace trireme::plan {

OuterCheck::OuterCheck(const ListView& view) : view_(view), units_(view.program().units.size()) {
  if (!view.plan.recipe.outer) return;
  const OuterSteps& outer = *view.plan.recipe.outer;
  const std::vector<int> fragments = fragments_of_units(view.program(), outer.fragments);
  for (UnitId unit : units_of_stage(view.program(), view.stage)) {
    units_[unit].applies = contains(outer.work.applied, fragments[unit]);
    units_[unit].sends = contains(outer.work.sent, fragments[unit]);
  }
}

void OuterCheck::line(int index) {
  const Instr& line = view_.list[index];
  if (line.verb == Verb::kStep) units_[line.unit].stepped = index;
  if (line.verb == Verb::kOuterReduce) reduce(index, line, units_[line.unit]);
  if (line.verb == Verb::kOuterStep) step(index, units_[line.unit]);
}

void OuterCheck::reduce(int index, const Instr& line, UnitState& unit) const {
  if (!unit.sends) view_.refuse(index, "the unit is of no fragment that this step sends");
  if (line.axes != view_.sharing(line.unit).islands)
    view_.refuse(index, "needs over={}", mesh::print(view_.sharing(line.unit).islands));
  if (unit.sent >= 0) view_.refuse(index, "happens a second time");
  if (unit.stepped < 0) view_.refuse(index, "comes before the step of the unit");
  view_.require_before(unit.stepped, index, "which steps the unit");
  if (unit.applies && unit.applied < 0)
    view_.refuse(index, "comes before the outer step by what an earlier step has sent");
  if (unit.applied >= 0)
    view_.require_before(unit.applied, index, "which changes the outer weights");
  unit.sent = index;
}

void OuterCheck::step(int index, UnitState& unit) const {
  if (unit.stepped < 0) view_.refuse(index, "comes before the step of the unit");
  if (unit.sent >= 0 && view_.plan.recipe.outer->work.at_once && unit.ended < 0) {
    view_.require_before(unit.sent, index, "whose mean it needs");
    unit.ended = index;
  } else if (unit.applies && unit.applied < 0) {
    unit.applied = index;
  } else {
    view_.refuse(index, "the unit has no mean that this step applies");
  }
}

void OuterCheck::finish() const {
  const bool at_once = view_.plan.recipe.outer && view_.plan.recipe.outer->work.at_once;
  for (std::size_t id = 0; id < units_.size(); ++id) {
    const UnitState& unit = units_[id];
    const std::string& name = view_.program().units[id].name;
    if (unit.sends && unit.sent < 0) view_.refuse(-1, "outer_reduce {} is missing", name);
    if ((unit.applies && unit.applied < 0) || (unit.sends && at_once && unit.ended < 0))
      view_.refuse(-1, "outer_step {} is missing", name);
  }
}

}  // namespace trireme::plan
