// A forecast in a screen of text.
#pragma once

#include "trireme/plan/simulate/simulate.h"
#include "trireme/plan/text/draw.h"

namespace trireme::simulate {

// Numbers of one rank, with the stages' first ranks and the bound of the step.
plan::StepNumbers step_numbers(const plan::PlanSet& plan, const Forecast& forecast, int rank);

}  // namespace trireme::simulate
