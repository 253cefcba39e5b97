#include "trireme/train/job_session.h"

#include "trireme/arch/layout.h"
#include "trireme/data/cut_tokens.h"
#include "trireme/models/build.h"
#include "trireme/optim/schedule.h"
#include "trireme/plan/microbatch.h"

namespace trireme::train {

JobSession::JobSession(const config::Job& job, comm::World& world)
    : JobSession(job, world, models::build(job, world)) {}

JobSession::JobSession(const config::Job& job, comm::World& world, exec::Model model)
    : job_(job),
      rank_(world.rank()),
      device_(models::device_of(job)),
      updater_(
          {.betas = job.optim.betas, .eps = job.optim.eps, .weight_decay = job.optim.weight_decay}),
      grid_(arch::grid_of(job, model.spec)),
      session_(std::move(model),
               {.mesh = arch::mesh_of(job),
                .recipe = arch::recipe_of(job),
                .grid = grid_,
                .seed = static_cast<std::uint64_t>(job.run.seed),
                .device = device_},
               world, updater_) {}

double JobSession::learning_rate(std::int64_t step) const {
  return optim::learning_rate(job_.optim, job_.run.steps, step);
}

// The samples of one rank's micro-batch, and of each its tokens: a function of what was consumed and of global
// ids alone.
std::function<std::vector<at::Tensor>(int mb)> JobSession::of_batch(std::int64_t batch,
                                                                    const Load& load) const {
  return [this, batch, &load](int mb) {
    const plan::PlanSet& plan = session_.plan();
    const std::int64_t id = plan::micro_batch_id(plan.mesh, plan.recipe, rank_, mb);
    std::vector<at::Tensor> inputs = data::cut_tokens(
        load(batch * job_.run.global_batch + job_.run.micro_batch * id),
        plan.mesh.coordinate(rank_, mesh::Axis::kCp), plan.mesh.degree(mesh::Axis::kCp));
    for (at::Tensor& input : inputs) input = input.to(device_);
    return inputs;
  };
}

exec::StepResult JobSession::train(std::int64_t step, bool flag, const Load& load,
                                   exec::Observer* observer, std::vector<exec::LineTime>* times) {
  return session_.step({.step = step,
                        .loss_scale = 1.0 / static_cast<double>(tokens_per_step()),
                        .update = {.lr = learning_rate(step), .step = step + 1},
                        .clip = job_.optim.clip,
                        .flag = flag,
                        .load = of_batch(step, load),
                        .observer = observer,
                        .times = times});
}

exec::StepResult JobSession::evaluate(std::int64_t batch, const Load& load) {
  return session_.evaluate({.load = of_batch(batch, load)});
}

}  // namespace trireme::train
