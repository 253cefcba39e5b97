// What of a unit is whose: one answer for the account, the price and the picture of a plan.
#pragma once

#include <cstdint>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Elements of a unit on one rank.
struct UnitShare {
  std::int64_t part = 0;  // stepped
  std::int64_t full = 0;  // with the padding of shards
  bool sharded = false;   // the two differ
};
UnitShare share_of(const PlanSet& plan, UnitId unit);

// How many gradients of a micro-batch a rank adds to its sum one at a time. A reduction adds them before, as an aligned block
// of the canonical tree, where the shards are a power of two; other numbers of ranks send their slices as they are. So
// any number of shards has the bits of one. Not among replicas, nor where sums of the unit leave memory: they stay
// within rounding. Groups of micro-batches are added in a row, which no reduction does: slices are sent as they are, except
// where cp ranks add parts of one micro-batch.
int leaves_of(const PlanSet& plan, UnitId unit);

}  // namespace trireme::plan
