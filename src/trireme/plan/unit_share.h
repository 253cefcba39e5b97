// A rank's share of a unit: one answer for the account, the price and the picture of a plan.
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

// Number of gradients of a micro-batch that a rank adds to its sum one at a time. A reduction adds them before, as an
// aligned block of the canonical tree, if the number of shards is a power of two. Other numbers of ranks send their
// slices as they are. So any number of shards has the bits of one. This does not hold among replicas, nor for offloaded
// sums: they agree within rounding. Groups of micro-batches are added in a row, which no reduction does. Slices are
// sent as they are, except where cp ranks add parts of one micro-batch.
int leaves_of(const PlanSet& plan, UnitId unit);

}  // namespace trireme::plan
