// Gathers of parameters: under ZeRO-3 ahead of each run of a unit's users, under ZeRO-1 and 2 once, ahead of the first.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// If an update leaves a unit whole but stale, the next step gathers it at its beginning, in order of use. The gather
// overlaps with the computation of earlier nodes. The gathers of units of the first kAhead + 1 beginnings of runs would
// overlap with nothing there. The pass tail gathers them after their step, like all others that no line here gathers.
//
// ZeRO-3: every run (passes/runs.h) has its own gather, `prefetch` beginnings of runs ahead. At most prefetch + 1 nodes
// of a chain are in memory.
List unshard(const Stage& stage, List list);

}  // namespace trireme::plan
