// MatrixCheck: updates of whole matrices reach their owners and come back before the step that takes them.
#pragma once

#include <vector>

#include "trireme/plan/check/list_check.h"

namespace trireme::plan {

class MatrixCheck {
 public:
  explicit MatrixCheck(const ListView& view) : view_(view), units_(view.program().units.size()) {}
  void line(int index);

 private:
  struct Update {
    int sent = -1, computed = -1, returned = -1;  // lines
  };
  bool exchanged(UnitId unit) const;
  void exchange(int index, const Instr& line);
  void compute(int index, UnitId unit);
  void step(int index, UnitId unit) const;
  void require_direction(int index, UnitId unit) const;
  // The line comes first of its kind.
  void once(int index, int& line) const;

  const ListView& view_;
  std::vector<Update> units_;
  int grad_norm_ = -1;
};

// Throws Error{kInternal} for a matrix that another rank owns than the one that assign_owners() gives it to.
void check_owners(const PlanSet& plan);

}  // namespace trireme::plan
