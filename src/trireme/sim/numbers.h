// What a forecast says in a screen of text.
#pragma once

#include "trireme/plan/draw.h"
#include "trireme/sim/simulate.h"

namespace trireme::sim {

// Of one rank, with the stages' first ranks and what bounds the step.
plan::StepNumbers step_numbers(const plan::PlanSet& plan, const Forecast& forecast, int rank);

}  // namespace trireme::sim
