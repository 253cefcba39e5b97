// Evaluation is a plan too: the same nodes without gradients.
#pragma once

#include "trireme/plan/program.h"

namespace trireme::plan {

// The program with every node forward only and every unit frozen. Losses stay losses: grad_norm still
// exchanges them.
Program forward_only(Program program);

}  // namespace trireme::plan
