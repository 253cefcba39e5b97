// Checks on precision.* and what follows from them; part of resolve.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Settles precision.compute=auto: by run.device, and on CPUs by what this machine multiplies with.
void choose_compute(Job& job);

// Settles what is derived: types, rounding, loss scale. Throws Error{kUsage}.
void resolve_precision(Precision& precision);

}  // namespace trireme::config
