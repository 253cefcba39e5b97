// Adds send and recv for values that cross pipeline stages, and for their gradients on the way back.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// `lists` by stage. A value or gradient is sent as soon as it is complete. It is received in the order of sending, no
// later than before the use of anything sent after it, and one action ahead of its first use. It arrives while that
// action runs. Transfers between two stages thus have one order on both, under any schedule: no two queues can wait for
// each other in a circle.
std::vector<List> p2p(const Program& program, const GradientFlow& flow, std::vector<List> lists);

}  // namespace trireme::plan
