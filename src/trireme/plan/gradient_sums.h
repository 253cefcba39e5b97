// GradientSums: what the order in which gradients are added costs a rank.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Bytes on one rank of the pipeline stage that needs most.
struct GradientSums {
  std::int64_t kept = 0;   // of all sums over some of the micro-batches
  std::int64_t least = 0;  // of one for each unit and chunk
};
GradientSums gradient_sums(const PlanSet& plan);

// Memory that groups of micro-batches save, or would save; "" if they make no difference.
std::string gradient_sums_text(const PlanSet& plan);

}  // namespace trireme::plan
