// trireme explain: the plan of a job, proven and priced, without running it.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "dataset.h"
#include "place.h"
#include "planned.h"
#include "trireme/base/error.h"
#include "trireme/plan/draw.h"
#include "trireme/sim/simulate.h"

namespace trireme::app {
namespace {

plan::StepNumbers priced(const plan::PlanSet& plan) {
  const sim::Forecast forecast = sim::simulate(plan, sim::CostModel{});
  const sim::ListForecast& first =
      forecast.lists[static_cast<std::size_t>(plan.list_of_rank.front())];
  return {.step_s = forecast.step_s,
          .comp_busy_s = first.comp_busy_s,
          .exposed_comm_s = first.exposed_comm_s,
          .bubble_fraction = forecast.bubble_fraction,
          .sent_bytes = first.sent_bytes};
}

}  // namespace

int explain(const ExplainOptions& options) {
  const config::Job job = read_job(options.job);
  const Place place = find_place(options.job.ranks, options.job.nproc);
  const Planned planned = plan_job(job, place.world, known_vocabulary(job.data));
  if (options.rank && (*options.rank < 0 || *options.rank >= place.world))
    fail(ErrorKind::kUsage, "--rank {}: the world has ranks 0 to {}", *options.rank,
         place.world - 1);
  const plan::MemoryAccount memory = plan::memory_account(planned.plan, 0);
  std::string text;
  if (options.format == "plan")
    text = plan::print(planned.plan);
  else if (options.format == "json")
    text = plan::explain_json(planned.plan, memory, priced(planned.plan)).dump(1) + "\n";
  else if (options.rank)
    text = plan::rank_text(planned.plan, *options.rank);
  else
    text = plan::explain_text(planned.plan, memory, priced(planned.plan));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace trireme::app
