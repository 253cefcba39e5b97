// Operations of a model in a step: the numerator of a forecast's MFU.
#pragma once

#include "trireme/config/job.h"

namespace trireme::planner {

// Matrix products and attention of all ranks' forwards and backwards (model::kComputedFlops), of the rows that are expected
// where rows vary (ExpectedShare). `job` is resolved; its layout changes nothing.
double expected_flops(const config::Job& job);

}  // namespace trireme::planner
