#include "trireme/plan/simulate/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trireme/base/text.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/cost.h"

namespace trireme::simulate {
namespace {

double sent_to_islands(const plan::PlanSet& plan) {
  double bytes = 0;
  for (const plan::Instr& line : plan.list(0))
    if (line.verb == plan::Verb::kOuterReduce) bytes += sent_bytes(plan, line);
  return bytes;
}

// A fragment: seconds by which the step that sends it exceeds others, and the share of them on the way to owners.
struct Merge {
  double seconds = 0, share = 1;

  // Seconds that a delay leaves to wait.
  double late_s(int delay, double step_s) const {
    const int there = plan::steps_to_owners(delay, share);
    return std::max(0.0, share * seconds - there * step_s) +
           std::max(0.0, (1 - share) * seconds - (delay - there) * step_s);
  }
};

// Of a round, with the bytes of a rank.
struct Merges {
  double step_s = 0;
  std::vector<Merge> merges;
  double sent_bytes = 0;
};

// Of the bytes of a plan's merges, those that go to owners. Without codes the exchange is one.
double share_to_owners(const plan::PlanSet& plan) {
  double there = 0, all = 0;
  for (const plan::Instr& line : plan.list(0)) {
    if (line.verb != plan::Verb::kOuterReduce) continue;
    const double bytes = sent_bytes(plan, line);
    const auto coded = plan::coded_merge(plan, line.unit);
    there += coded ? plan::share_to_owners(*coded) * bytes : bytes;
    all += bytes;
  }
  return all > 0 ? there / all : 1;
}

std::optional<Merges> merges_of(const plan::PlanSet& plan,
                                const std::function<double(const plan::PlanSet&)>& step_seconds) {
  if (!plan.recipe.outer || plan.recipe.schedule == schedules::Schedule::kGiven)
    return std::nullopt;
  plan::Recipe recipe = plan.recipe;
  plan::OuterSteps& outer = *recipe.outer;
  const auto compiled = [&](plan::OuterWork work) {
    outer.work = std::move(work);
    return plan::compile(plan.program, plan.mesh, recipe);
  };
  Merges merges{.step_s = step_seconds(compiled({}))};
  // The second round, because the first begins late.
  for (std::int64_t step = outer.every + 1; step <= 2 * outer.every; ++step) {
    const plan::OuterWork work = plan::outer_work(outer, step, /*last=*/false);
    if (work.sent.empty()) continue;
    const plan::PlanSet merging = compiled({.sent = work.sent, .at_once = work.at_once});
    merges.merges.push_back(
        {.seconds = step_seconds(merging) - merges.step_s, .share = share_to_owners(merging)});
    merges.sent_bytes += sent_to_islands(merging);
  }
  return merges;
}

}  // namespace

std::optional<Round> round_of(const plan::PlanSet& plan,
                              const std::function<double(const plan::PlanSet&)>& step_seconds) {
  const std::optional<Merges> merges = merges_of(plan, step_seconds);
  if (!merges) return std::nullopt;
  const plan::OuterSteps& outer = *plan.recipe.outer;
  Round round{.steps = outer.every, .step_s = merges->step_s};
  for (const Merge& merge : merges->merges)
    round.merging_s += merge.late_s(outer.delay, round.step_s);
  round.sent_bytes = merges->sent_bytes;
  return round;
}

std::optional<HidingDelay> hiding_delay(
    const plan::PlanSet& plan, const std::function<double(const plan::PlanSet&)>& step_seconds) {
  constexpr double kSlack = 1.1;
  const std::optional<Merges> merges = merges_of(plan, step_seconds);
  if (!merges) return std::nullopt;
  HidingDelay delay{.step_s = merges->step_s};
  for (const Merge& merge : merges->merges)
    delay.fragment_s = std::max(delay.fragment_s, merge.seconds);
  const std::int64_t most = (plan.recipe.outer->every - 1) / 2;
  const auto hides = [&](const Merge& merge) {
    return merge.late_s(delay.steps, delay.step_s / kSlack) == 0;
  };
  while (delay.steps < most && !std::ranges::all_of(merges->merges, hides)) ++delay.steps;
  return delay;
}

std::string delay_text(const HidingDelay& delay) {
  return fmt::format("network.outer delay:{}: a fragment takes {}, a step {}", delay.steps,
                     seconds_text(delay.fragment_s), seconds_text(delay.step_s));
}

std::string round_text(const Round& round) {
  return fmt::format("islands   {} a rank every {} steps, {} more: {:.1f}% of the time trains\n",
                     bytes_text(round.sent_bytes), round.steps, seconds_text(round.merging_s),
                     100 * round.utilisation());
}

}  // namespace trireme::simulate
