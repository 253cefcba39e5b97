#include "trireme/planner/cost/model_flops.h"

#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/families/describe.h"
#include "trireme/planner/cost/program_kernels.h"
#include "trireme/planner/hardware/practice.h"

namespace trireme::planner {

double expected_flops(const config::Job& job) {
  config::Job alone = job;
  alone.parallel = {};
  alone.parallel.dp_shard = 1;
  alone.recompute = {};
  const model::ModelSpec model = model::describe(alone);
  if (config::info(job).chain)
    return model.flops_per_token * static_cast<double>(job.run.global_batch * model.sample_tokens);
  const Practice practice;
  const ProgramKernels kernels(alone, model, practice);
  const std::vector<double> factors = model::flop_factors(model);
  const std::int64_t micro_batches = config::accumulation(alone);
  double flops = 0;
  for (std::size_t n = 0; n < factors.size(); ++n) {
    const plan::Node& node = model.program.nodes[n];
    flops += factors[n] * kernels.flops_of(node.name) *
             static_cast<double>(node.joint ? 1 : micro_batches);
  }
  return flops;
}

}  // namespace trireme::planner
