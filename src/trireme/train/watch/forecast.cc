#include "trireme/train/watch/forecast.h"

#include "trireme/model/account/flops.h"
#include "trireme/model/loss_label.h"
#include "trireme/plan/simulate/numbers.h"
#include "trireme/plan/simulate/pictures/svg.h"
#include "trireme/plan/simulate/pictures/timeline.h"
#include "trireme/plan/text/draw.h"
#include "trireme/planner/cost/expected_memory.h"

namespace trireme::train {

namespace {

constexpr int kDrawnRanks = 64;  // a picture of more rows is for a file of its own

}  // namespace

RunInfo forecast(const config::Job& job, const plan::PlanSet& plan, const model::ModelSpec& spec,
                 int rank, const planner::StepForecast& step) {
  const simulate::Forecast& forecast = step.lines;
  const auto list = static_cast<std::size_t>(plan.list_of_rank[rank]);
  const plan::MemoryAccount& account = forecast.lists[list].memory;

  plan::StepNumbers numbers = simulate::step_numbers(plan, forecast, rank);
  numbers.step_s = step.step_s;
  numbers.low_s = step.low_s;
  numbers.high_s = step.high_s;
  numbers.source = step.source;

  RunInfo info;
  info.model = plan.program.name;
  info.loss = model::loss_label(job);
  info.job_yaml = config::print_yaml(job);
  info.plan_summary = plan::explain_text(plan, rank, account, numbers);
  info.steps = job.run.steps;
  info.parameters = spec.parameters();
  info.world = plan.mesh.world();
  info.predicted_step_s = step.step_s;
  info.predicted_low_s = step.low_s;
  info.predicted_high_s = step.high_s;
  info.predicted_process = step.process_bytes;
  info.prediction = step.source;
  for (std::size_t one = 0; one < plan.list_of_rank.size(); ++one)
    info.predicted_bytes.push_back(forecast.lists[plan.list_of_rank[one]].memory.peak_of_tensors() +
                                   planner::samples_ahead(plan, job, static_cast<int>(one)));
  info.mfu_convention = model::kComputedFlops;
  if (forecast.step_s > 0 && plan.mesh.world() <= kDrawnRanks)
    info.timeline =
        simulate::pictures::svg(plan, simulate::pictures::timelines(plan, forecast),
                                {.title = "One step as it was forecast", .subtitle = step.source});
  return info;
}

}  // namespace trireme::train
