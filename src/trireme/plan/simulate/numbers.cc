#include "trireme/plan/simulate/numbers.h"

#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/simulate/cost.h"
#include "trireme/plan/simulate/critical_path.h"

namespace trireme::simulate {

plan::StepNumbers step_numbers(const plan::PlanSet& plan, const Forecast& forecast, int rank) {
  const auto of_rank = [&](int one) -> const ListForecast& {
    return forecast.lists[plan.list_of_rank[static_cast<std::size_t>(one)]];
  };
  const ListForecast& mine = of_rank(rank);
  plan::StepNumbers numbers{.step_s = forecast.step_s,
                            .comp_busy_s = forecast.comp_busy_s,
                            .exposed_comm_s = forecast.exposed_comm_s,
                            .exposed_transfers_s = forecast.exposed_transfers_s,
                            .exposed_offload_s = forecast.exposed_offload_s,
                            .bubble_fraction = forecast.bubble_fraction,
                            .pipeline_bubble = forecast.pipeline_bubble,
                            .sent_bytes = mine.sent_bytes,
                            .bound = bound_by(plan, forecast)};
  if (const int host = plan::host_ranks(plan); host > 0 && host < plan.mesh.world()) {
    numbers.host_ranks = host;
    numbers.crossing_bytes = crossing_bytes(plan, rank, host);
  }
  for (int stage = 0; stage < plan.mesh.degree(mesh::Axis::kPp); ++stage) {
    const ListForecast& one = of_rank(plan.mesh.peer(0, mesh::Axis::kPp, stage));
    numbers.stages.push_back({.busy_s = one.comp_busy_s,
                              .idle_s = forecast.step_s - one.comp_busy_s,
                              .peak_bytes = one.memory.peak_total});
  }
  return numbers;
}

}  // namespace trireme::simulate
