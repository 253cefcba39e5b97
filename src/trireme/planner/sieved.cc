#include "trireme/planner/sieved.h"

#include <algorithm>

#include "trireme/arch/flops.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve.h"
#include "trireme/planner/estimate.h"
#include "trireme/planner/plan_memory.h"
#include "trireme/planner/space.h"

namespace trireme::planner {
namespace {

// Closed forms err: what needs so much more than there is may still fit, and what needs so much less surely does.
constexpr double kDoubt = 1.06, kSure = 0.94;

bool host_has_room(const Question& question, double host) {
  const Cluster& cluster = question.cluster;
  if (host == 0) return true;
  if (cluster.host_rate <= 0) return false;
  return cluster.host_memory == 0 ||
         host * cluster.gpus_per_host <= static_cast<double>(cluster.host_memory);
}

}  // namespace

Sieved::Sieved(const Question& question, Away away) : question_(question), sieve_(question) {
  const double most = kDoubt * limit();
  for_layouts(question, sieve_, away, [&](const Layout& layout, const Family& family) {
    ++seen_;
    const Priced priced{.layout = layout,
                        .price = sieve_.price(layout, *family.parts, *family.traffic)};
    if (!host_has_room(question_, priced.price.host)) return;
    if (!smallest_ || priced.price.bytes < smallest_->price.bytes) smallest_ = priced;
    if (priced.price.bytes <= most) fitting_.push_back(priced);
  });
}

std::vector<Priced> Sieved::best(int count) const {
  std::vector<const Priced*> order;
  order.reserve(fitting_.size());
  for (const Priced& priced : fitting_) order.push_back(&priced);
  const auto faster = [](const Priced* a, const Priced* b) {
    return a->price.seconds < b->price.seconds;
  };
  // Enough in order that `count` of them surely fit.
  const std::size_t sorted = std::min(order.size(), static_cast<std::size_t>(count) * 64);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(sorted), order.end(),
                    faster);
  std::vector<Priced> best;
  int sure = 0, unsure = 0;
  for (std::size_t at = 0; at < sorted && (sure < count || unsure < count); ++at) {
    const bool fits = order[at]->price.bytes <= kSure * limit();
    if (int& taken = fits ? sure : unsure; taken++ < count)
      if (std::optional<Priced> one = estimated(order[at]->layout)) best.push_back(*one);
  }
  std::ranges::stable_sort(best, {}, &Priced::estimate);
  return best;
}

std::optional<Priced> Sieved::estimated(const Layout& layout) const {
  Priced priced{.layout = layout, .price = sieve_.price(layout)};
  try {
    const Candidate candidate(resolved(question_, layout), question_.practice);
    priced.estimate = candidate.step_seconds(question_.cluster) + priced.price.offload;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
  return priced;
}

std::optional<Priced> Sieved::least(const std::function<bool(const Layout&)>& wanted) const {
  const Priced* least = nullptr;
  for (const Priced& priced : fitting_)
    if ((least == nullptr || priced.price.seconds < least->price.seconds) &&
        priced.price.bytes <= limit() && wanted(priced.layout))
      least = &priced;
  return least == nullptr ? std::nullopt : estimated(least->layout);
}

config::Job resolved(const Question& question, const Layout& layout) {
  return config::resolve(with_layout(question.job, layout), layout.world(), {});
}

std::optional<Option> compiled(const Question& question, const Priced& priced, bool limited) {
  Option option{.layout = priced.layout, .estimate = priced.estimate, .sieve = priced.price.seconds};
  try {
    option.job = resolved(question, priced.layout);
    const Candidate candidate(option.job, question.practice);
    const plan::PlanSet plan = candidate.plan();
    plan::validate(plan);
    plan::check_activations_leave(plan);
    for (std::size_t list = 0; list < plan.lists.size(); ++list) {
      const auto rank = static_cast<int>(
          std::ranges::find(plan.list_of_rank, static_cast<int>(list)) - plan.list_of_rank.begin());
      DeviceMemory memory =
          plan_memory(plan, rank, question.expandable, memory_constants(question.cluster));
      option.host = std::max(option.host, memory.of(Pool::kHost));
      if (list == 0 || memory.needed() > option.memory.needed()) option.memory = std::move(memory);
    }
    if (limited && (needed(question, option) > memory_of(question.cluster) ||
                    !host_has_room(question, option.host)))
      return std::nullopt;
    const Pricing pricing(option.job, question.practice, question.cluster);
    const sim::Forecast forecast = sim::simulate(plan, line_cost(plan, pricing));
    option.seconds = forecast.step_s;
    option.bubble = forecast.bubble_fraction;
    option.exposed = forecast.exposed_comm_s;
    option.model_flops = arch::flops_per_token(option.job.model, arch::FlopsConvention::kNanoGpt) *
                         option.tokens();
    option.convention = arch::name(arch::FlopsConvention::kNanoGpt);
    option.parameters = static_cast<double>(arch::count_parameters(option.job.model).total);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
  return option;
}

}  // namespace trireme::planner
