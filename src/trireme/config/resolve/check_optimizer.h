// What optimizers need of the rest of a job.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// The optimizer of the job, or of a group of it, that updates whole matrices; null: none does.
const OptimizerInfo* matrix_optimizer(const Optim& optim);
// Of parameters that neither a group nor a matrix optimizer takes.
const OptimizerInfo& elementwise(const Optim& optim);

// Throws Error{kUsage} for 8-bit states, whole matrices or keys of Muon where they cannot be.
void check_optimizer(const Job& job);

}  // namespace trireme::config
