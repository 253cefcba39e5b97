// A plan for the eye: one screen, JSON, or every line of one rank.
#pragma once

#include <string>

#include "trireme/base/json.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

// What a simulation found for one rank.
struct StepNumbers {
  double step_s = 0;
  double comp_busy_s = 0;
  double exposed_comm_s = 0;
  double bubble_fraction = 0;
  double sent_bytes = 0;
};

// Mesh, recipe, units, communication, memory, forecast and the step in compact notation; at most 50
// lines of 110 columns. `account` and `numbers` are those of rank 0.
std::string explain_text(const PlanSet& plan, const MemoryAccount& account,
                         const StepNumbers& numbers);
Json explain_json(const PlanSet& plan, const MemoryAccount& account, const StepNumbers& numbers);

// Every line of the list that a rank runs, with the bytes live while it runs.
std::string rank_text(const PlanSet& plan, int rank);

}  // namespace trireme::plan
