// A loop of steps with an optimizer, a learning rate or a pipeline schedule of one's own. docs/extending.md quotes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/exec/session.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/microbatch.h"

namespace trireme::extending {

struct Own {
  std::function<std::unique_ptr<exec::Optimizer>()> optimizer;
  std::function<double(std::int64_t done)> rate;  // learning rate after so many updates
  std::optional<schedules::Grid> grid{};          // none: that of the job's schedule
};

// Resolved, of so many ranks.
inline config::Job loop_job(int ranks, const harness::Sets& sets) {
  const harness::Sets small = {"model.tied=false", "run.global_batch=8"};
  return config::resolve(harness::small_llama(DType::kF32, harness::operator+(small, sets)), ranks,
                         {});
}

// [loop]
// Losses of six steps on the same samples.
inline std::vector<double> losses(const config::Job& job, int ranks, const Own& own) {
  std::vector<double> all;
  comm::run_local_ranks(ranks, 60, [&](comm::World& world) {
    const std::unique_ptr<exec::Optimizer> optimizer = own.optimizer();
    exec::SessionSetup setup{.mesh = model::mesh_of(job), .recipe = model::recipe_of(job)};
    setup.recipe.optimizer_states = static_cast<int>(optimizer->states().size());
    setup.grid = own.grid;
    if (own.grid) setup.recipe.schedule = schedules::Schedule::kGiven;
    exec::Session session(blocks::build(job, world), setup, world, *optimizer);
    for (std::int64_t step = 0; step < 6; ++step) {
      exec::StepArgs args{.step = step};
      args.loss_scale = 1.0 / static_cast<double>(job.run.global_batch * job.model.seq_len);
      args.update = {.lr = own.rate(step), .step = step + 1};
      args.load = [&](int mb) {
        const std::int64_t id = plan::micro_batch_id(setup.mesh, setup.recipe, world.rank(), mb);
        return loaders::random_tokens(id, 1, job.model.seq_len, job.model.vocab);
      };
      const double loss = session.step(args).loss;
      if (world.rank() == 0) all.push_back(loss);
    }
  });
  return all;
}
// [end]

}  // namespace trireme::extending
