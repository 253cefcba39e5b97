// Operations of a model in a step: the numerator of a forecast's MFU.
#pragma once

#include "trireme/config/job.h"

namespace trireme::planner {

// Operations of matrix products and attention in all ranks' forwards and backwards (model::kComputedFlops). Rows that
// vary count as expected (ExpectedShare). `job` is resolved; its layout changes nothing.
double expected_flops(const config::Job& job);

}  // namespace trireme::planner
