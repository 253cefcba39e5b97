// Adds the reductions of every trainable unit's gradient over its data-parallel ranks.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Inserts reductions right after the backward that completes a gradient, so that they overlap with the rest of
// backward. These are the all-reduce of ZeRO-0 and the reduce-scatter of ZeRO-1 (once) and ZeRO-2/3 (every
// micro-batch). Then follows, over dp_replicate, the all-reduce of the whole step's shard.
List reduce(const Stage& stage, List list);

}  // namespace trireme::plan
