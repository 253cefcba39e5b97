// Runs of a job in phases, one after the other.
#pragma once

#include "apps/trireme/commands.h"

namespace trireme::app {

// Whether the job is one in phases of which none is chosen.
bool has_phases(const JobOptions& job);

// Every phase is a `trireme train` of its own, in OUT/NAME. A finished phase is not repeated, and an interrupted one
// resumes. A phase begins with the last checkpoint of the one it follows. Stops at the first that fails. Returns the
// exit code.
int train_phases(const TrainOptions& options);

}  // namespace trireme::app
