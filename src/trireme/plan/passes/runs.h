// Runs: for which lines a unit's parameters have to be there, and how far ahead they are brought.
#pragma once

#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

// A range of neighbouring computing lines of one micro-batch and one direction (forward; or backward with its
// recomputation) that all use the unit. The weight backward needs no parameters, nor does any backward of a node that
// looks rows up.
struct Run {
  UnitId unit = -1;
  std::size_t begin = 0;  // first and last line
  std::size_t end = 0;
};

// In the order in which they begin.
std::vector<Run> runs(const Stage& stage, const List& list);

// For each run the line before which its unit is gathered: `prefetch` beginnings of runs ahead of its own, in the order
// of runs, after the end of the unit's previous run.
std::vector<std::size_t> ahead_of(const std::vector<Run>& runs, int prefetch);

}  // namespace trireme::plan
