// Gathers of parameters: under ZeRO-3 ahead of each run of a unit's users, under ZeRO-1 and 2 once, ahead of the first.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Where an update leaves a unit whole but stale, the next step gathers it at its head, in order of use, so that it comes in
// while earlier nodes compute. Units of the first kAhead + 1 places where runs begin have nothing to hide behind there: tail
// gathers them behind their step, as it does all others that no line here gathers.
//
// ZeRO-3: every run (passes/runs.h) is gathered for itself, `prefetch` places where runs begin ahead of its own, so at most
// prefetch + 1 nodes of a chain are in memory.
List unshard(const Stage& stage, List list);

}  // namespace trireme::plan
