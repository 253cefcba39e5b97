// Small operators: what nodes compute by many operators of LibTorch on small tensors, on CPUs.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/planner/cost/kernels.h"

namespace trireme::planner {

// Operators of a micro-batch, which launch kernels (views do not), and bytes that they read and write.
struct SmallOperators {
  std::vector<Kernel> forward;
  std::vector<Kernel> backward;
};

// So many operators, those of the forward pass with these bytes in all. Families count them from their blocks' sources, in
// addition to the layers, norms, attention and activations of a node.
SmallOperators small_operators_of(double forward, double backward, double bytes = 0);

}  // namespace trireme::planner
