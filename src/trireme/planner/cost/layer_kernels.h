// The kernels that a language model's nodes are made of, on one rank.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/planner/cost/kernels.h"
#include "trireme/planner/cost/node_forms.h"
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

// `job` is resolved. Shapes are those of the rank with most rows. Without sequence parallelism a tp rank has every row
// between the parallel regions, with it a share.
NodeKernels node_kernels(const config::Job& job, const Practice& practice, const NodeForm& form);

// Kernels that stream do it in the type of activations.
NodeKernels typed(NodeKernels node, Math math);

}  // namespace trireme::planner
