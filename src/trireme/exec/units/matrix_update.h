// MatrixUpdate: what a rank holds of a unit that is updated by matrix, from its gradient to its step. Directions go to the
// owners of matrices, whose updates come back; Units::update() takes them.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/comm/ticket.h"
#include "trireme/exec/optimizer.h"
#include "trireme/exec/units/flat.h"
#include "trireme/plan/plan.h"

namespace trireme::exec {

struct UnitState;

struct MatrixUpdate {
  // Elements [begin, end) of the rank's part are those from `at` on of what it sends to owners and gets back.
  struct Range {
    std::int64_t begin = 0, end = 0, at = 0;
  };

  MatrixUpdate(const plan::PlanSet& plan, plan::UnitId unit, int shard);

  // Elements to and from the shard of each rank. Shards and matrices ascend, so own matrices arrive one after the other,
  // each whole, and return as they are.
  std::vector<std::int64_t> given, owned;
  std::vector<Range> ranges;
  std::vector<plan::Matrix> own;  // `offset` counts in `whole`
  bool exchanged = false;         // else the rank has the unit whole
  std::int64_t part = 0;          // elements of all ranges

  Flat moving;  // of the part: directions on their way to owners, or updates that come back
  Flat whole;   // own matrices: directions, then updates
  comm::Ticket exchange;
  bool returning = false;

  const Flat& updates() const { return exchanged ? moving : whole; }
  void end() {
    moving = Flat();
    whole = Flat();
  }
};

// The step of a unit that is updated by matrix, by the updates that it has.
void step_by_matrix(UnitState& unit, const UpdateArgs& args);

}  // namespace trireme::exec
