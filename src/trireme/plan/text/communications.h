// Sums of a rank's communication in a step.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Lines of one verb over the same axes, or one exchange inside nodes.
struct Communication {
  std::string what;
  int count = 0;
  double bytes = 0;  // of the whole buffers
};

// A rank's, in order of appearance.
std::vector<Communication> communications(const PlanSet& plan, int rank);

}  // namespace trireme::plan
