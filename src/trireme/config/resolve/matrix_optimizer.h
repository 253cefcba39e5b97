// Optimizers of a job by what their updates need: elements or whole matrices.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// The optimizer of the job, or of a group of it, that updates whole matrices; null: none does.
const OptimizerInfo* matrix_optimizer(const Optim& optim);
// Of parameters that neither a group nor a matrix optimizer takes.
const OptimizerInfo& elementwise(const Optim& optim);

}  // namespace trireme::config
