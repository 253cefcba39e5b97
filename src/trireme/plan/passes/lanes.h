// The last pass: what each line must wait for in other lanes.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// Fills `after` from what lines read and write, as few entries as order all of it.
List lanes(const Stage& stage, List list);

}  // namespace trireme::plan
