#include "trireme/job/runs/outer_delay.h"

#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/plan/simulate/round.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::runs {

config::Job with_found_delay(config::Job job, int world, const config::DatasetFacts& data,
                             const std::function<double(const Planned&)>& step_seconds,
                             const std::function<void(const std::string&)>& say) {
  if (!config::finds_delay(job.network)) return job;
  Planned one = plan_job(job, world, data);
  const plan::PlanSet plan = one.plan;
  const auto seconds = [&](const plan::PlanSet& priced) {
    one.plan = priced;
    const double expected = step_seconds(one);
    return expected > 0 ? expected : simulate::simulate(priced, simulate::CostModel{}).step_s;
  };
  const std::optional<simulate::HidingDelay> delay = simulate::hiding_delay(plan, seconds);
  if (!delay)
    fail(ErrorKind::kUsage,
         "network.outer={}: delay:auto needs a schedule that can be priced, not one from a file; "
         "set a delay, such as delay:3",
         job.network.outer);
  job.network.outer = config::with_delay(job.network, delay->steps);
  say(simulate::delay_text(*delay));
  return job;
}

}  // namespace trireme::runs
