// Rows over cp ranks: which blocks work on a part of them, and how all others get whole ones. model/spread.h has what that
// costs.
#pragma once

#include "trireme/exec/block.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// A block that works on those rows, [.., rows, d], of its first input that are here, and writes these first.
class RowWise {
 public:
  virtual ~RowWise() = default;
};

// Where cp ranks share rows, every block that is not RowWise gathers what such a one has written and keeps its own rows of
// what such a one reads. Of a loss, which every rank computes whole, each gives its part, so that the sum over ranks is
// the loss; the first one counts.
void spread_rows(const Ranks& ranks, exec::Model& model);

}  // namespace trireme::blocks
