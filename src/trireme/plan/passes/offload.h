// Offload: sends away what a step has no use for for a while, and brings it back ahead of its use.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Behind unshard. Parameters come back for every run of their users, or for what gathers them, and are dropped behind
// it: nothing has changed.
List offload_params(const Stage& stage, List list);

// What nodes read that run again leaves behind its last forward and comes back ahead of the recomputation. Values
// that a kept forward holds, that are sent or that are inputs stay.
List offload_values(const Stage& stage, List list);

// Behind tail. A micro-batch's gradient meets the sums it is added to, which come back for that, and leaves as a part
// of them; the step's sum leaves once it is reduced.
List offload_gradients(const Stage& stage, List list);

// Behind offload_gradients. Each unit's optimizer states, parameters and gradient come back before its step; what the
// step has changed leaves behind it.
List offload_steps(const Stage& stage, List list);

}  // namespace trireme::plan
