// What a forecast says in a screen of text.
#pragma once

#include "trireme/plan/draw.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate {

// Of one rank, with the stages' first ranks and what bounds the step.
plan::StepNumbers step_numbers(const plan::PlanSet& plan, const Forecast& forecast, int rank);

}  // namespace trireme::simulate
