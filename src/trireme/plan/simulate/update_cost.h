// Costs of updates of whole matrices.
#pragma once

#include <vector>

#include "trireme/plan/simulate/cost.h"

namespace trireme::simulate {

// Elements to the owners of matrices, or back: of each pair of ranks the mean.
std::vector<Exchanged> update_exchanges(const plan::PlanSet& plan, const plan::Instr& line);

// Bytes that a direction reads and writes, which is made of the gradient and the moment.
double moved_by_direction(const plan::PlanSet& plan, const plan::Instr& line);

}  // namespace trireme::simulate
