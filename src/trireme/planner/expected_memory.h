// Expected memory: what a plan needs where rows that vary come to what is expected of them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/plan/plan.h"

namespace trireme::planner {

// The plan of a resolved job with values, kept activations and work of the expected size (ExpectedShare) instead of the
// largest. Its lists are the same. Only plan::memory_account may read it.
plan::PlanSet with_expected_rows(plan::PlanSet plan, const config::Job& job);

}  // namespace trireme::planner
