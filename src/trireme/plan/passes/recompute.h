// Full recomputation (Chen et al. 2016): forwards keep nothing, and run again before their backward.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Loss nodes keep what they saved: their backward follows at once.
List recompute(const Stage& stage, List list);

}  // namespace trireme::plan
