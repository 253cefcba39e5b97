// What the plan promises of a run, before its first step.
#pragma once

#include "trireme/arch/spec.h"
#include "trireme/config/job.h"
#include "trireme/plan/plan.h"
#include "trireme/sim/cost.h"
#include "trireme/train/callbacks.h"

namespace trireme::train {

// The price of lines where one rank multiplies matrices at `rank_flops`; the rest as the model has it.
sim::CostModel cost_model(double rank_flops);

// Fills name, job, plan summary, sizes and predictions; `rank_flops` is the measured matrix rate of one
// rank, the only thing the price depends on beside the plan.
RunInfo forecast(const config::Job& job, const plan::PlanSet& plan, const arch::ModelSpec& spec,
                 int rank, double rank_flops);

}  // namespace trireme::train
