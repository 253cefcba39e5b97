// Forecast of a run by its plan, before its first step.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/spec.h"
#include "trireme/plan/plan.h"
#include "trireme/planner/hardware/machine.h"
#include "trireme/train/callbacks.h"

namespace trireme::train {

// Fills model, job, plan summary, sizes and predictions.
RunInfo forecast(const config::Job& job, const plan::PlanSet& plan, const model::ModelSpec& spec,
                 int rank, const planner::StepForecast& step);

}  // namespace trireme::train
