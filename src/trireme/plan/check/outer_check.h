// OuterCheck: fragments are merged over islands as the recipe has it for this step, after their own steps.
#pragma once

#include <vector>

#include "trireme/plan/check/list_check.h"

namespace trireme::plan {

class OuterCheck {
 public:
  explicit OuterCheck(const ListView& view);
  void line(int index);
  void finish() const;

 private:
  struct UnitState {
    bool applies = false, sends = false;  // the step's work on the unit
    int stepped = -1;                     // line of its own step
    int applied = -1;                     // of the outer step by what was sent before
    int sent = -1;
    int ended = -1;  // of the outer step by what this step sends
  };
  void reduce(int index, const Instr& line, UnitState& unit) const;
  void step(int index, UnitState& unit) const;

  const ListView& view_;
  std::vector<UnitState> units_;
};

}  // namespace trireme::plan
