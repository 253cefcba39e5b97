// Rival: what a schedule that gains nothing here could be replaced with.
#pragma once

#include <functional>
#include <string>

#include "trireme/plan/plan.h"

namespace trireme::simulate {

// A schedule that takes no longer than the plan's by `step_seconds` and needs no more memory: both in numbers, the
// reason, and the key to set. "" if there is none.
std::string rival_text(const plan::PlanSet& plan,
                       const std::function<double(const plan::PlanSet&)>& step_seconds);

}  // namespace trireme::simulate
