// A job set into a world, with its plan compiled and proven.
#pragma once

#include <string_view>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/job/runs/place.h"
#include "trireme/model/spec.h"
#include "trireme/plan/plan.h"

namespace trireme::runs {

struct Planned {
  config::Job job;  // resolved
  model::ModelSpec model;
  plan::PlanSet plan;  // validated
};

// Resolves, compiles and validates. Throws Error{kUsage} for a job that cannot be planned.
Planned plan_job(config::Job job, int world, const config::DatasetFacts& data);

// Refuses what is wrong whatever the dataset turns out to be, and a device that this build or these ranks
// cannot use. Throws Error{kUsage}.
void check_early(const config::Job& job, const Place& place);

// Throws Error{kUsage} for a job that looks for its micro_batch or delay of outer steps, where nothing does.
void refuse_search(const config::Job& job, std::string_view command);

}  // namespace trireme::runs
