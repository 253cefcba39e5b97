// Runs: for which lines a unit's parameters have to be there, and how far ahead they are brought.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// A stretch of neighbouring computing lines of one micro-batch and one direction (forward; or backward with its
// recomputation) that all use the unit. The weight half of a backward needs no parameters, nor does any of a node that
// looks rows up.
struct Run {
  UnitId unit = -1;
  std::size_t begin = 0;  // first and last line
  std::size_t end = 0;
};

// In the order in which they begin.
std::vector<Run> runs(const Stage& stage, const List& list);

// Of each run the line before which its unit is brought: `prefetch` places where runs begin ahead of its own, in the
// order of runs, behind the end of the unit's run before.
std::vector<std::size_t> ahead_of(const std::vector<Run>& runs, int prefetch);

}  // namespace trireme::plan
