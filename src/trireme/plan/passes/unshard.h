// ZeRO-3: gathers a unit's parameters ahead of each run of its users and drops them behind it.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// A run is a stretch of neighbouring lines of one micro-batch and one direction (forward; or backward
// with its recomputation) that all use the unit. Every run is gathered for itself, `prefetch` runs
// ahead of its first line, so at most prefetch + 1 runs of a chain are in memory.
List unshard(const Stage& stage, List list);

}  // namespace trireme::plan
