// ZeRO-3: gathers a unit's parameters ahead of each run of its users and drops them behind it.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Every run (passes/runs.h) is gathered for itself, `prefetch` places where runs begin ahead of its own, so at most
// prefetch + 1 nodes of a chain are in memory.
List unshard(const Stage& stage, List list);

}  // namespace trireme::plan
