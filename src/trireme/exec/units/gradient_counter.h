// GradientCounter: gradients of micro-batches added as one balanced binary tree.
#pragma once

#include <vector>

#include "trireme/exec/units/flat.h"

namespace trireme::exec {

// `earlier` += `later`: the left operand of the tree stays on the left.
void add(Flat& earlier, const Flat& later);

// A binary counter of partial sums (plan/binary_counter.h). The k-th pushed gradient (k from 0) is added exactly as
// leaf k of a balanced tree. Its leaves are rows of `row` gradients, each added in order of arrival.
class GradientCounter {
 public:
  explicit GradientCounter(int row = 1) : row_(row) {}

  void push(Flat gradient);
  bool empty() const { return levels_.empty(); }
  int pushed() const { return pushed_; }
  // A partial sum, which may be taken away while no push meets it, and has to be put back before collapse.
  Flat& level(int number) { return levels_[number]; }
  // The sum of everything pushed; leaves the counter empty. For a count that is no power of two the
  // smaller subtrees are added first.
  Flat collapse();

 private:
  int row_;
  int pushed_ = 0;
  std::vector<Flat> levels_;  // of the counter, some empty
};

}  // namespace trireme::exec
