// A plan's recipe as the lines of `trireme explain`: ZeRO, micro-batches, schedule, types, codes, islands, offloading.
#pragma once

#include <string>

#include "trireme/plan/plan.h"

namespace trireme::plan {

std::string recipe_lines(const PlanSet& plan);

}  // namespace trireme::plan
