#include "trireme/planner/cost/node_kernels.h"

namespace trireme::planner {

Kernel added(const Practice& practice, const NodeNumbers& numbers, double weights) {
  const auto element = static_cast<double>(size_of(numbers.type)),
             sum = static_cast<double>(size_of(numbers.sums));
  return stream(weights * (practice.adds_weight_gradients ? element + 2 * sum : sum));
}

NodeKernels typed(NodeKernels node, Math math) {
  const auto type = [&](std::vector<Kernel>& kernels) {
    for (Kernel& kernel : kernels)
      if (kernel.kind == Kernel::Kind::kStream) kernel.math = math;
  };
  type(node.forward);
  type(node.input);
  type(node.weight);
  type(node.attention_input);
  type(node.last);
  for (auto& [name, part] : node.parts) type(part);
  return node;
}

}  // namespace trireme::planner
