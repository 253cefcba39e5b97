// Rows over cp ranks: which blocks work on a part of them, and how all others get whole ones. model/spread.h has what that
// costs.
#pragma once

#include "trireme/exec/block.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Where cp ranks share rows, every block whose node is not marked in spec.row_wise gathers the rows that such a block
// wrote, and keeps its own rows for such a block to read. Every rank computes a loss whole and returns a part of it, so
// that the sum over ranks is the loss; the first rank counts.
void spread_rows(const Ranks& ranks, exec::Model& model);

}  // namespace trireme::blocks
