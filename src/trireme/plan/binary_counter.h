// BinaryCounter: which partial sums of gradients a rank has, in memory or outside it.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

namespace trireme::plan {

// Gradients of micro-batches are added as a balanced binary tree: level k is the sum of 2^k of them, and a new gradient
// meets the levels from 0 on that are there, as adding 1 to a binary number does. In fast mode all of them are added up in
// level 0.
class BinaryCounter {
 public:
  explicit BinaryCounter(bool canonical = true) : canonical_(canonical) {}

  int pushed() const { return pushed_; }
  // How many sums the next gradient meets: the lowest levels.
  int met() const {
    return canonical_ ? std::countr_one(static_cast<unsigned>(pushed_)) : std::min(pushed_, 1);
  }
  int in_memory() const { return std::popcount(here_); }
  int away() const { return std::popcount(away_); }

  // Whether the sums that the next gradient meets are all in memory, or all outside.
  bool meets_here() const { return (here_ & met_levels()) == met_levels(); }
  bool meets_away() const { return (away_ & met_levels()) == met_levels(); }

  // Adds a gradient: the sums that it meets become one with it.
  void push() {
    const unsigned sum = 1u << (canonical_ ? met() : 0);
    here_ = (here_ & ~met_levels()) | sum;
    ++pushed_;
  }
  // What is in memory leaves it.
  void leave() { away_ |= std::exchange(here_, 0u); }
  // What the next gradient meets comes back, or everything does; how many sums that are.
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

  bool canonical_;
  int pushed_ = 0;
  unsigned here_ = 0;  // bit by bit of the levels
  unsigned away_ = 0;
};

}  // namespace trireme::plan
