// BinaryCounter: which partial sums of gradients a rank has, in memory or outside it.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

namespace trireme::plan {

// Gradients are added `row` at a time one after the other, and rows as a balanced binary tree, like carries when 1 is
// added to a binary number. The open row is the lowest sum, and sums of 2^k rows follow; where a row is one gradient,
// none is open. Fast mode is a row that never ends.

// Number of sums that the gradient after `pushed` others is added to: the lowest ones.
inline int levels_met(int pushed, int row) {
  const bool opens = pushed % row == 0, closes = pushed % row == row - 1;
  return !opens + (closes ? std::countr_one(static_cast<unsigned>(pushed / row)) : 0);
}

// Where its own sum then lies.
inline int level_of_sum(int pushed, int row) {
  return pushed % row == row - 1 ? levels_met(pushed, row) : 0;
}

// Sums of `count` gradients that are there at once, at the most.
inline int most_sums(int count, int row) {
  if (row == 1) return std::bit_width(static_cast<unsigned>(count) + 1) - 1;
  return count == 0 ? 0 : std::bit_width(static_cast<unsigned>((count - 1) / row) + 1);
}

class BinaryCounter {
 public:
  explicit BinaryCounter(int row = 1) : row_(row) {}

  int pushed() const { return pushed_; }
  int met() const { return levels_met(pushed_, row_); }
  int in_memory() const { return std::popcount(here_); }
  int away() const { return std::popcount(away_); }

  // Whether the sums that the next gradient meets are all in memory, or all outside.
  bool meets_here() const { return (here_ & met_levels()) == met_levels(); }
  bool meets_away() const { return (away_ & met_levels()) == met_levels(); }

  // Adds a gradient: the sums that it meets become one with it.
  void push() {
    here_ = (here_ & ~met_levels()) | 1u << level_of_sum(pushed_, row_);
    ++pushed_;
  }
  // The sums in memory leave it.
  void leave() { away_ |= std::exchange(here_, 0u); }
  // Brings back the sums that the next gradient is added to, or all; returns their number.
  int bring_met() { return bring(met_levels()); }
  int bring_all() { return bring(away_); }

 private:
  unsigned met_levels() const { return (1u << met()) - 1; }
  int bring(unsigned levels) {
    const unsigned coming = away_ & levels;
    away_ &= ~coming;
    here_ |= coming;
    return std::popcount(coming);
  }

  int row_;
  int pushed_ = 0;
  unsigned here_ = 0;  // bit by bit of the levels
  unsigned away_ = 0;
};

}  // namespace trireme::plan
