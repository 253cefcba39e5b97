// Critical path of a step: the chain of lines, each started after the one before, that ends with the step.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate {

// Kinds of work on the path.
enum class PathKind {
  kForward,
  kRecompute,
  kBackward,
  kWeight,
  kTransfer,
  kCollective,
  kStep,
  kOffload
};
std::string_view name(
    PathKind kind);  // "forward", ..., in plural where there are many: "transfers"
PathKind kind_of(const plan::Instr& line);

// A line on the path, for as long as the next one waits for it.
struct PathPart {
  LineRef at;
  double start = 0;
  double end = 0;
};

// From the start of the step to its end, without gaps.
std::vector<PathPart> critical_path(const Forecast& forecast);

// Seconds of the path by kind and stage, largest first.
struct PathShare {
  PathKind kind = PathKind::kForward;
  int stage = 0;
  double seconds = 0;
};
std::vector<PathShare> path_shares(const plan::PlanSet& plan, const Forecast& forecast);

// "bound by backward on stage 3: 71% of the critical path; forward 20%, transfers 4%". It names the kind of work with
// the largest share of the path, and the stage with the largest share of that.
std::string bound_by(const plan::PlanSet& plan, const Forecast& forecast);

}  // namespace trireme::simulate
