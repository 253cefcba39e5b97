// Adds send and recv for values that cross pipeline stages, and for their gradients on the way back.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Every rank's `down` queue is ordered by (micro-batch, writing node) and its `up` queue by
// (micro-batch, writing node from the last to the first): one order over all stages, so queues that
// run in order cannot wait for each other in a circle.
List p2p(const Stage& stage, List list);

}  // namespace trireme::plan
