// Layouts as the command line gives them: "tp=2,zero=3".
#pragma once

#include <string_view>

#include "trireme/config/job.h"

namespace trireme::app {

// The job under that layout, not resolved. Degrees that it leaves out are 1, whatever the job says; a key without a section is
// of parallel. Throws Error{kUsage}.
config::Job with_layout(config::Job job, std::string_view layout);

// The product of all degrees, which may be beyond any world.
double ranks_of(const config::Parallel& parallel);

}  // namespace trireme::app
