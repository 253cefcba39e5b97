// The optimizer of a job.
#pragma once

#include <memory>

#include "trireme/config/job.h"
#include "trireme/exec/optimizer.h"
#include "trireme/optim/optimizer_options.h"

namespace trireme::optim {

// The optimizers of a job's units (model::UnitSpec::optimizer), with its options: their states are what the plan counts.
std::unique_ptr<exec::Optimizer> make_optimizer(const config::Job& job);
std::unique_ptr<exec::Optimizer> make_optimizer(config::Optimizer name,
                                                const OptimizerOptions& options);

#define OPTIMIZER(name, key, states, grain) \
  std::unique_ptr<exec::Optimizer> make_##key(const OptimizerOptions& options);
TRIREME_OPTIMIZERS(OPTIMIZER)
#undef OPTIMIZER

}  // namespace trireme::optim
