// Offload: sends away what a step has no use for for a while, and brings it back ahead of its use.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Runs after unshard. Parameters return for every run of their users, or for the gather, and are dropped after it,
// because nothing has changed.
List offload_params(const Stage& stage, List list);

// Inputs of recomputed nodes leave after their last forward and return before the recomputation. Values that a kept
// forward holds, sent values and inputs stay.
List offload_values(const Stage& stage, List list);

// Runs after tail. The sums to which a micro-batch's gradient is added return for that and leave with it; the step's
// sum leaves once it is reduced.
List offload_gradients(const Stage& stage, List list);

// Runs after offload_gradients. Each unit's optimizer states, parameters and gradient return before its step; those
// that the step has changed leave after it.
List offload_steps(const Stage& stage, List list);

}  // namespace trireme::plan
