// The kernels of a node by its passes, and what it computes in.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "trireme/planner/cost/kernels.h"
#include "trireme/planner/hardware/practice.h"

namespace trireme::planner {

// Kernels of one micro-batch, without a node's exchanges.
struct NodeKernels {
  std::vector<Kernel> forward;
  std::vector<Kernel> input;            // gradients of what the node reads
  std::vector<Kernel> weight;           // and of its parameters
  std::vector<Kernel> attention_input;  // of `input`, what is attention's
  std::vector<Kernel> last;  // of forward, what backward reads nothing of, or what is kept
  // Kernels of each part of the node's forward that can be recomputed (model/account/parts.h).
  std::vector<std::pair<std::string_view, std::vector<Kernel>>> parts;
};

// What a node computes in.
struct NodeNumbers {
  DType type;           // of its own activations
  DType between;        // of those between nodes
  DType sums;           // of summed gradients
  double share = 1;     // of rows, what is expected
  bool spread = false;  // attention is among cp ranks
};

// Kernels that stream do it in the type of activations.
NodeKernels typed(NodeKernels node, Math math);
// So many gradients of weights join the sum of the step's.
Kernel added(const Practice& practice, const NodeNumbers& numbers, double weights);

}  // namespace trireme::planner
