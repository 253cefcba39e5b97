// Adds send and recv for values that cross pipeline stages, and for their gradients on the way back.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// `lists` by stage. A value or gradient is sent as soon as it is complete. It is received in the order in which
// it is sent, no later than anything sent after it is needed, and one action ahead of its first use, so that it
// arrives while that action runs. What is sent from one stage to another thus has one order on both, whatever
// the schedule: no two queues can wait for each other in a circle.
std::vector<List> p2p(const Program& program, const GradientFlow& flow, std::vector<List> lists);

}  // namespace trireme::plan
