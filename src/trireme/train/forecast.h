// What the plan promises of a run, before its first step.
#pragma once

#include "trireme/arch/spec.h"
#include "trireme/config/job.h"
#include "trireme/plan/plan.h"
#include "trireme/train/callbacks.h"

namespace trireme::train {

// Fills name, job, plan summary, sizes and predictions; `rank_flops` is the measured matrix rate of one
// rank, the only thing the price depends on beside the plan.
RunInfo forecast(const config::Job& job, const plan::PlanSet& plan, const arch::ModelSpec& spec,
                 int rank, double rank_flops);

}  // namespace trireme::train
