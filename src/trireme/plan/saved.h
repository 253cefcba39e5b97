// A rank's part of a checkpoint, derived from the plan alone.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Elements [begin, end) of a unit as its largest tp rank holds it, without padding; whole blocks of 8-bit states.
struct SavedRange {
  UnitId unit = -1;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Ranges that the rank owns: together the ranks' ranges tile every part of every unit. Ascending, none empty. Without
// units that do not train, if so asked.
std::vector<SavedRange> saved_ranges(const PlanSet& plan, int rank, bool trainable_only = false);

// Bytes of the parameters and optimizer states there.
std::int64_t saved_bytes(const PlanSet& plan, int rank, bool trainable_only = false);

}  // namespace trireme::plan
