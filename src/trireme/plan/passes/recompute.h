// Recomputation of whole nodes (Chen et al. 2016): forwards of segments keep nothing, and are repeated before the first
// of their backwards.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

List recompute(const Stage& stage, List list);

}  // namespace trireme::plan
