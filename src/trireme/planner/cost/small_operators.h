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

// Counted from the blocks' sources (model/blocks), in addition to the layers, norms, attention and activations of a node.
// `job` is resolved. Empty for nodes that have no others.
SmallOperators arrcoc_operators(const config::Job& job, std::string_view node);
SmallOperators hvjepa_operators(const config::Job& job, std::string_view node);
SmallOperators hnet_operators(const config::Job& job, std::string_view node);

}  // namespace trireme::planner
