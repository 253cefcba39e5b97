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

// Those whose name contains `only`. Where `job` has a file, that is the job; its assignments lie over those of runs, and its ranks
// are those of runs without ranks of their own. Throws Error{kUsage} where there is none.
std::vector<Variant> variants(const std::string& sweep, const JobOptions& job,
                              const std::string& only = "");

}  // namespace trireme::app
