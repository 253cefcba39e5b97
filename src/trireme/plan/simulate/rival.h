// Rival: what a schedule that gains nothing here could be replaced with.
#pragma once

#include <functional>
#include <string>

#include "trireme/plan/plan.h"

namespace trireme::simulate {

// Where another schedule takes as long as the plan's by `step_seconds`, or less, and needs less memory, or as much: both in
// numbers, why, and the key to set. "" where none does.
std::string rival_text(const plan::PlanSet& plan,
                       const std::function<double(const plan::PlanSet&)>& step_seconds);

}  // namespace trireme::simulate
