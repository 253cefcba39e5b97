// Rows over cp ranks: families other than decoders spread the rows of their blocks and compute the rest whole.
#pragma once

#include <vector>

#include "trireme/model/account/per_rank.h"
#include "trireme/plan/program.h"

namespace trireme::model {

// Marks, parallel to values, of the first input and first result of nodes that are marked in `row_wise`, parallel to
// nodes.
std::vector<bool> spread_values(const plan::Program& program, const std::vector<bool>& row_wise);

// Nodes that are marked in `row_wise` work on a rank's rows of their first input and first result, [.., rows, width]:
// its mesh::share. Every other node works on all rows: it gathers such inputs and keeps its own rows of such results
// (model/blocks/spread.h). This function adds the memory for these to the nodes, adds the reduce-scatters where a
// gradient returns (`reached`, parallel to values), and shrinks such values. Throws Error{kUsage} where there are fewer
// rows than ranks, and where stages pass on rows of which ranks have different numbers.
void share_rows(plan::Program& program, const std::vector<bool>& row_wise,
                const std::vector<bool>& reached, const PerRank& rank);

}  // namespace trireme::model
