#include "trireme/planner/search/report/spending.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/saving.h"

namespace trireme::planner {
namespace {

// Llama 3's storage gives 0.98 GB/s to a host, Selene's 0.71.
constexpr double kUsualRate = 0.8e9;

// Of a parameter that trains, a checkpoint has what is stepped, and Adam's two states; of a frozen one its value.
double stored_bytes(const Option& option) {
  const config::Job& job = option.job;
  const auto master = static_cast<double>(size_of(job.precision.master.value()));
  const bool narrow = job.optim.states == config::OptimizerStates::kInt8;
  const double frozen = job.checkpoint.trainable_only ? 0 : option.parameters - option.trained;
  return option.trained * (master + (narrow ? 2.0 : 2 * master)) +
         frozen * static_cast<double>(size_of(job.precision.compute));
}

}  // namespace

Spending spending(const Question& question, const Option& option, double tokens,
                  double deadline_hours) {
  if (!(tokens > 0)) fail(ErrorKind::kUsage, "{} tokens: a run needs more than 0", tokens);
  const Cluster& cluster = question.cluster;
  const double gpus = option.layout.world();
  const double hosts = std::ceil(gpus / cluster.gpus_per_host);
  Spending run{.tokens = tokens};
  run.steps = std::ceil(tokens / option.tokens());
  run.useful_hours = run.steps * option.seconds / 3600;
  run.mttf_s = mttf_s(cluster.failures_per_gpu_hour, gpus);
  run.checkpoint_bytes = stored_bytes(option);
  run.assumed = cluster.checkpoint_rate <= 0;
  run.checkpoint_rate = run.assumed ? kUsualRate : cluster.checkpoint_rate;
  const double rate = run.checkpoint_rate * hosts;
  run.checkpoint = config::saves_async(option.job) && cluster.host_rate > 0
                       ? write_async(run.checkpoint_bytes, rate, cluster.host_rate * gpus)
                       : write_at_once(run.checkpoint_bytes, rate);
  const Failures failures{.mttf_s = run.mttf_s, .restart_s = cluster.restart_s};
  const Rental rental{.useful_hours = run.useful_hours,
                      .gpus = gpus,
                      .checkpoint = run.checkpoint,
                      .deadline_hours = deadline_hours};
  run.reducers = cluster.reducers.hosts * cluster.reducers.price;
  run.goodput = goodput(failures, run.checkpoint,
                        interval_of(rental, best_interval_s(failures, run.checkpoint)));
  run.hours = run.useful_hours / run.goodput.useful;
  run.gpu_hours = run.hours * gpus;
  run.kwh = energy_kwh(cluster, gpus, run.hours);
  if (deadline_hours > 0) run.in_time = cheapest(cluster, rental);
  if (cluster.prices.empty()) return run;
  for (const Offer& offer :
       offers(cluster,
              {.useful_hours = run.useful_hours, .gpus = gpus, .checkpoint = run.checkpoint})) {
    std::optional<Offer>& best = offer.spot ? run.spot : run.on_demand;
    if (!best) best = offer;
  }
  return run;
}

}  // namespace trireme::planner
