#include "trireme/train/forecast.h"

#include "trireme/plan/draw.h"
#include "trireme/sim/numbers.h"

namespace trireme::train {

sim::CostModel cost_model(double rank_flops) {
  return {.fp64_flops = rank_flops, .fp32_flops = rank_flops, .half_flops = rank_flops};
}

RunInfo forecast(const config::Job& job, const plan::PlanSet& plan, const arch::ModelSpec& spec,
                 int rank, double rank_flops) {
  const sim::Forecast forecast = sim::simulate(plan, cost_model(rank_flops));
  const auto list = static_cast<std::size_t>(plan.list_of_rank[static_cast<std::size_t>(rank)]);
  const plan::MemoryAccount& account = forecast.lists[list].memory;

  RunInfo info;
  info.name = plan.program.name;
  info.job_yaml = config::print_yaml(job);
  info.plan_summary =
      plan::explain_text(plan, rank, account, sim::step_numbers(plan, forecast, rank));
  info.steps = job.run.steps;
  info.parameters = spec.parameters();
  info.world = plan.mesh.world();
  info.predicted_step_s = forecast.step_s;
  for (const int one : plan.list_of_rank)
    info.predicted_bytes.push_back(
        forecast.lists[static_cast<std::size_t>(one)].memory.peak_of_tensors());
  info.mfu_convention = spec.flops_convention;
  return info;
}

}  // namespace trireme::train
