// The kernels that operations of a node are lowered to, as a practice computes them.
#pragma once

#include <vector>

#include "trireme/model/layers/operation.h"
#include "trireme/planner/cost/node_kernels.h"

namespace trireme::planner {

NodeKernels lower(const std::vector<model::Operation>& operations, const Practice& practice,
                  const NodeNumbers& numbers);

}  // namespace trireme::planner
