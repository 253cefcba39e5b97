// The end of a step: tied units in step with each other, one norm, optimizer steps, averages.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

List tail(const Stage& stage, List list);

}  // namespace trireme::plan
