#include "trireme/planner/search/screened.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/plan/binary_counter.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/schedules/info.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/cost/model_flops.h"
#include "trireme/planner/cost/plan_memory.h"
#include "trireme/planner/cost/pricing.h"
#include "trireme/planner/hardware/machine.h"
#include "trireme/planner/search/space.h"

namespace trireme::planner {
namespace {

// Closed forms err: what needs so much more than there is may still fit, and what needs so much less surely does.
constexpr double kDoubt = 1.12, kSure = 0.92;

bool host_has_room(const Question& question, double host) {
  const Cluster& cluster = question.cluster;
  if (host == 0) return true;
  if (cluster.host_rate <= 0) return false;
  return host * std::min(question.gpus, cluster.gpus_per_host) <=
         static_cast<double>(cluster.host_memory);
}

}  // namespace

void Refusal::take(const Error& other) {
  const bool better =
      error && error->kind() == ErrorKind::kOutOfMemory && other.kind() != ErrorKind::kOutOfMemory;
  if (!error || better) error.emplace(other);
}

// No more than the job allows, whose recomputation is chosen by it.
double Screened::limit() const {
  const double all = usable_memory(question_);
  const std::int64_t given = question_.job.recompute.memory.count;
  return given > 0 ? std::min(all, static_cast<double>(given) + memory_constants(question_).context)
                   : all;
}

// Approximate effort of making the schedule: some are searched, and so is recomputation, plan by plan.
double Screened::actions(const Layout& layout) const {
  const bool searched = schedules::info(layout.schedule).search != nullptr;
  const bool weighed = question_.job.recompute.policy == config::RecomputePolicy::kAuto;
  return (searched ? 8.0 : 1.0) * (weighed ? 64.0 : 1.0) * layout.pp * layout.chunks *
         static_cast<double>(screen_.micro_batches(layout));
}

Screened::Screened(const Question& question, Away away) : question_(question), screen_(question) {
  const double most = kDoubt * limit();
  for_layouts(question, screen_, away, [&](const Layout& layout, const Family& family) {
    ++seen_;
    const Priced priced{.layout = layout,
                        .price = screen_.price(layout, *family.parts, *family.traffic)};
    if (!host_has_room(question_, priced.price.host)) {
      if (!crowded_ || priced.price.host < crowded_->price.host) crowded_ = priced;
      return;
    }
    if (!smallest_ || priced.price.bytes < smallest_->price.bytes) smallest_ = priced;
    if (priced.price.bytes <= most) fitting_.push_back(priced);
  });
}

std::vector<Priced> Screened::best(int count) const {
  std::vector<const Priced*> order;
  order.reserve(fitting_.size());
  for (const Priced& priced : fitting_) order.push_back(&priced);
  const auto faster = [](const Priced* a, const Priced* b) {
    return a->price.seconds < b->price.seconds;
  };
  // Many differ in details only: of each kind a few are asked.
  constexpr int kAlike = 2;
  constexpr std::size_t kLooked = 40000;
  const std::size_t sorted = std::min(order.size(), kLooked);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(sorted), order.end(),
                    faster);
  std::vector<Priced> best;
  std::map<std::tuple<int, int, int, int, bool, bool>, int> alike;
  int sure = 0, unsure = 0;
  double effort = 0;
  for (std::size_t at = 0; at < sorted && (sure < count || unsure < count); ++at) {
    const Layout& one = order[at]->layout;
    // Closed forms are within a few per cent of what follows.
    constexpr double kHopeless = 1.25, kMostEffort = 6e5;
    if (sure > 0 && order[at]->price.seconds > kHopeless * best.front().price.seconds) break;
    if (effort > kMostEffort && sure > 0) break;
    const bool fits = order[at]->price.bytes <= kSure * limit();
    if (alike[{one.pp, one.tp, one.cp, one.zero, one.schedule == schedules::Schedule::k1F1B,
               fits}]++ >= kAlike)
      continue;
    int& taken = fits ? sure : unsure;
    if (taken >= count) continue;
    if (std::optional<Priced> asked = estimated(one)) {
      best.push_back(*asked);
      ++taken;
      effort += actions(one);
    }
  }
  std::ranges::stable_sort(best, {}, &Priced::estimate);
  return best;
}

std::optional<Priced> Screened::estimated(const Layout& layout) const {
  Priced priced{.layout = layout, .price = screen_.price(layout)};
  // A schedule that takes long to search is what closed forms say of it, until its plan is compiled.
  constexpr double kLong = 2e5;
  if (actions(layout) > kLong) {
    priced.estimate = priced.price.seconds;
    return priced;
  }
  try {
    const Candidate candidate(resolved(question_, layout), question_.practice);
    priced.estimate =
        on_cores(question_.cluster, layout.world(), candidate.step_seconds(question_.cluster)) +
        priced.price.offload;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    refusal_.take(error);
    return std::nullopt;
  }
  return priced;
}

std::optional<Priced> Screened::least(const std::function<bool(const Layout&)>& wanted) const {
  const Priced* least = nullptr;
  for (const Priced& priced : fitting_)
    if ((least == nullptr || priced.price.seconds < least->price.seconds) &&
        priced.price.bytes <= limit() && wanted(priced.layout))
      least = &priced;
  return least == nullptr ? std::nullopt : estimated(least->layout);
}

config::Job resolved(const Question& question, const Layout& layout) {
  return config::resolve(with_layout(question.job, layout), layout.world(), question.data);
}

std::string refusal_of(const Question& question, const Layout& layout) {
  try {
    resolved(question, layout);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    const std::string why = error.what();
    return why.substr(0, why.find(';'));
  }
  return "";
}

namespace {

// As many micro-batches as show what the step needs of memory: more only repeat what is between the ends.
config::Job shortened(const config::Job& job) {
  constexpr std::int64_t kLong = 4000, kTurns = 2, kFewest = 8;
  const std::int64_t micro_batches = config::accumulation(job);
  const std::int64_t few = std::max(kTurns * job.parallel.pp, kFewest);
  if (micro_batches * nodes_of(job) < kLong || micro_batches <= few) return job;
  config::Job shorter = job;
  shorter.run.global_batch = few * job.run.micro_batch * config::dp(job);
  return shorter;
}

// Of the rank that needs most.
void count_memory(const Question& question, const plan::PlanSet& plan, Option& option) {
  option.memory = {};
  for (std::size_t list = 0; list < plan.lists.size(); ++list) {
    const auto rank = static_cast<int>(
        std::ranges::find(plan.list_of_rank, static_cast<int>(list)) - plan.list_of_rank.begin());
    DeviceMemory memory = plan_memory(plan, rank, question.expandable, memory_constants(question));
    option.host = std::max(option.host, memory.of(Pool::kHost));
    if (list == 0 || memory.needed() > option.memory.needed()) option.memory = std::move(memory);
  }
}

// Canonical sums of gradients are as many as the digits of their groups: more than those of the short plan.
void grow_sums(const config::Job& shorter, const Priced& priced, Option& option) {
  const auto sums = [](const config::Job& job) {
    return plan::most_sums(static_cast<int>(config::accumulation(job)),
                           static_cast<int>(config::sum_group(job)));
  };
  for (MemoryTerm& term : option.memory.terms)
    if (term.name == plan::name(plan::MemoryKind::kGradients))
      term.bytes *= static_cast<double>(sums(option.job)) / sums(shorter);
  option.host = std::max(option.host, priced.price.host);
}

Option proven(const Question& question, const Priced& priced, bool all) {
  Option option{
      .layout = priced.layout, .estimate = priced.estimate, .screen = priced.price.seconds};
  option.job = resolved(question, priced.layout);
  const config::Job job = all ? option.job : shortened(option.job);
  option.whole = job.run.global_batch == option.job.run.global_batch;
  const Candidate candidate(job, question.practice);
  const plan::PlanSet plan = candidate.plan();
  plan::validate(plan);
  plan::check_activations_leave(plan);
  count_memory(question, plan, option);
  if (!option.whole && job.precision.numerics == config::Numerics::kCanonical)
    grow_sums(job, priced, option);
  const Cluster& cluster = question.cluster;
  const StepForecast forecast = forecast_on(plan, job, question.practice, cluster);
  option.seconds = forecast.step_s;
  if (!option.whole)  // what is left out takes what it takes by the estimate
    option.seconds +=
        priced.estimate - on_cores(cluster, priced.layout.world(), candidate.step_seconds(cluster));
  option.low = forecast.low_s / forecast.step_s * option.seconds;
  option.high = forecast.high_s / forecast.step_s * option.seconds;
  option.bubble = forecast.lines.bubble_fraction;
  option.exposed = forecast.lines.exposed_comm_s;
  const model::ModelSpec& model = candidate.model();
  option.sample_tokens = model.sample_tokens;
  option.model_flops = expected_flops(option.job);
  option.parameters = static_cast<double>(model.parameters());
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    if (model.program.units[unit].trainable)
      option.trained += static_cast<double>(model.units[unit].numel());
  return option;
}

}  // namespace

bool too_long(const config::Job& job) {
  constexpr double kMostForwards = 2e5;
  return static_cast<double>(config::accumulation(job)) * static_cast<double>(nodes_of(job)) >
         kMostForwards;
}

std::optional<Option> compiled(const Question& question, const Priced& priced, bool all,
                               Refusal* why) {
  try {
    Option option = proven(question, priced, all);
    const double bytes = needed(question, option);
    if (bytes <= usable_memory(question) && host_has_room(question, option.host)) return option;
    if (why != nullptr)
      why->take(Error(ErrorKind::kOutOfMemory,
                      fmt::format("{} needs {:.1f} GiB a {} and {:.1f} GiB of its host's once its "
                                  "plan is counted",
                                  text(priced.layout), bytes / (1 << 30), question.cluster.device(),
                                  option.host / (1 << 30))));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    if (why != nullptr) why->take(error);
  }
  return std::nullopt;
}

}  // namespace trireme::planner
