// What sharing a sequence gains: speedups that cp_long_context tells without seconds.
#pragma once

#include <vector>

#include "bench/scoreboard/score.h"

namespace trireme::scoreboard {

// Megatron-Core's plot of speedups, and headlines of papers.
std::vector<Case> context_ratio_cases(const Csv& csv);

}  // namespace trireme::scoreboard
