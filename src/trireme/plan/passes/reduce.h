// Adds the reductions of every trainable unit's gradient over its data-parallel ranks.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Right behind the backward that completes a gradient, so that it overlaps with the rest of backward:
// the all-reduce of ZeRO-0, the reduce-scatter of ZeRO-1 (once) and ZeRO-2/3 (every micro-batch), then
// over dp_replicate the all-reduce of the whole step's shard.
List reduce(const Stage& stage, List list);

}  // namespace trireme::plan
