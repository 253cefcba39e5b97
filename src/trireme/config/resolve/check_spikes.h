// Checks on run.spike_*; part of resolve.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Throws Error{kUsage} where they say something that has no use, or need checkpoints that there will not be.
void check_spikes(const Job& job);

}  // namespace trireme::config
