#include "trireme/train/forecast.h"

#include "trireme/plan/draw.h"
#include "trireme/plan/memory.h"
#include "trireme/sim/simulate.h"

namespace trireme::train {

RunInfo forecast(const config::Job& job, const plan::PlanSet& plan, const arch::ModelSpec& spec,
                 int rank, double rank_flops) {
  sim::CostModel model;
  model.fp64_flops = model.fp32_flops = model.half_flops = rank_flops;
  const sim::Forecast forecast = sim::simulate(plan, model);
  const auto list = static_cast<std::size_t>(plan.list_of_rank[static_cast<std::size_t>(rank)]);
  const sim::ListForecast& mine = forecast.lists[list];
  const plan::MemoryAccount account = plan::memory_account(plan, rank);

  RunInfo info;
  info.name = plan.program.name;
  info.job_yaml = config::print_yaml(job);
  info.plan_summary = plan::explain_text(plan, account,
                                         {.step_s = forecast.step_s,
                                          .comp_busy_s = mine.comp_busy_s,
                                          .exposed_comm_s = mine.exposed_comm_s,
                                          .bubble_fraction = forecast.bubble_fraction,
                                          .sent_bytes = mine.sent_bytes});
  info.steps = job.run.steps;
  info.parameters = spec.parameters();
  info.world = plan.mesh.world();
  info.predicted_step_s = forecast.step_s;
  info.predicted_bytes = account.peak_total;
  info.mfu_convention = spec.flops_convention;
  return info;
}

}  // namespace trireme::train
