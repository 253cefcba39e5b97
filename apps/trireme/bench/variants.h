// Variants of a job for commands that measure them: the runs of a sweep.
#pragma once

#include <string>
#include <vector>

#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "trireme/config/job.h"

namespace trireme::app {

struct Variant {
  std::string name;
  Place place;
  config::Job job;  // not resolved
};

// Those whose name contains `only`. The file of `job`, if any, replaces that of the sweep. Its assignments override
// those of runs, and its ranks are those of runs without ranks of their own. Throws Error{kUsage} without a job.
std::vector<Variant> variants(const std::string& sweep, const JobOptions& job,
                              const std::string& only = "");

}  // namespace trireme::app
