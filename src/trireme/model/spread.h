// Rows over cp ranks: families other than decoders spread the rows of their blocks and compute the rest whole.
#pragma once

#include <vector>

#include "trireme/model/account/per_rank.h"
#include "trireme/plan/program.h"

namespace trireme::model {

// What nodes that are marked in `row_wise`, parallel to nodes, read first and write first: marks parallel to values.
std::vector<bool> spread_values(const plan::Program& program, const std::vector<bool>& row_wise);

// Nodes that are marked in `row_wise` work on the rows that a rank has of what they read first and write first,
// [.., rows, width]: its mesh::share. Every other node works on all rows, gathers such values and keeps its own of what it
// writes (model/blocks/spread.h): what it gathers and keeps of that, and the reduce-scatters where a gradient comes back
// (`reached`, parallel to values), are added to it here, and such values become as small as they are. Throws Error{kUsage}
// where there are fewer rows than ranks, and where stages pass on rows of which ranks have unlike numbers.
void share_rows(plan::Program& program, const std::vector<bool>& row_wise,
                const std::vector<bool>& reached, const PerRank& rank);

}  // namespace trireme::model
