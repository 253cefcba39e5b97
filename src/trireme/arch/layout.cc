#include "trireme/arch/layout.h"

#include "trireme/config/resolve.h"

namespace trireme::arch {

mesh::Mesh mesh_of(const config::Job& job) {
  const config::Parallel& parallel = job.parallel;
  return mesh::Mesh({.pp = parallel.pp,
                     .dp_replicate = parallel.dp_replicate,
                     .dp_shard = parallel.dp_shard,
                     .cp = parallel.cp,
                     .tp = parallel.tp});
}

plan::Recipe recipe_of(const config::Job& job) {
  const config::Precision& precision = job.precision;
  return {.zero = job.parallel.zero,
          .micro_batches = static_cast<int>(config::accumulation(job)),
          .prefetch = job.parallel.prefetch,
          .recompute = job.recompute.policy == config::RecomputePolicy::kFull,
          .canonical = precision.numerics == config::Numerics::kCanonical,
          .clip = job.optim.clip > 0,
          .schedule = plan::schedules::Schedule::k1F1B,
          .compute = precision.compute,
          .master = precision.master.value(),
          .grads = precision.grads.value(),
          .optimizer_states = 2};
}

}  // namespace trireme::arch
