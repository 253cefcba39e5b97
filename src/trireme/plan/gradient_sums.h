// GradientSums: what the order in which gradients are added costs a rank.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Of the pipeline stage that needs most, bytes on one of its ranks at the most.
struct GradientSums {
  std::int64_t kept = 0;   // of all sums over some of the micro-batches
  std::int64_t least = 0;  // of one for each unit and chunk
};
GradientSums gradient_sums(const PlanSet& plan);

// What groups of micro-batches spare, or would; "" where they make no difference.
std::string gradient_sums_text(const PlanSet& plan);

}  // namespace trireme::plan
