// Plan memory: GPU memory of a rank of a compiled plan, as the sum of the plan's own account of tensors and everything
// else.
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/planner/cost/device_memory.h"

namespace trireme::planner {

// Tensors are those of plan::memory_account while its largest line runs; allocated() is their sum. `expandable`: the
// allocator's segments grow (expandable_segments:True); else kept activations leave holes.
DeviceMemory plan_memory(const plan::PlanSet& plan, int rank, bool expandable,
                         const MemoryConstants& constants = {});

// Number of groups of the rank's lines and the nodes of its stage: one for each set of axes, one for each stage that it
// sends to or receives from.
int plan_communicators(const plan::PlanSet& plan, int rank);

}  // namespace trireme::planner
