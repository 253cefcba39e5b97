// The delay of outer steps that network.outer leaves to prices.
#pragma once

#include <functional>
#include <string>

#include "trireme/job/runs/plan_job.h"

namespace trireme::runs {

// The job with delay:N in place of network.outer's delay:auto, if it has that. `step_seconds` prices plans of the job, 0
// where it cannot; `say` gets a sentence about the result. Throws Error{kUsage} for plans that have no price.
config::Job with_found_delay(config::Job job, int world, const config::DatasetFacts& data,
                             const std::function<double(const Planned&)>& step_seconds,
                             const std::function<void(const std::string&)>& say);

}  // namespace trireme::runs
