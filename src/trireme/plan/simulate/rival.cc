#include "trireme/plan/simulate/rival.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/text.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::simulate {
namespace {

// Equal times, within the accuracy of forecasts.
constexpr double kAsLong = 1.01;

// Of the rank that needs most.
std::int64_t peak(const plan::PlanSet& plan) {
  std::int64_t most = 0;
  for (int list = 0; list < static_cast<int>(plan.lists.size()); ++list) {
    const auto rank = std::ranges::find(plan.list_of_rank, list) - plan.list_of_rank.begin();
    most = std::max(most, plan::memory_account(plan, static_cast<int>(rank)).peak_of_tensors());
  }
  return most;
}

}  // namespace

std::string rival_text(const plan::PlanSet& plan,
                       const std::function<double(const plan::PlanSet&)>& step_seconds) {
  const auto rival_of_own = schedules::rival_of(plan.recipe.schedule);
  if (!rival_of_own || plan.lists.size() == 1) return "";
  plan::Recipe recipe = plan.recipe;
  recipe.schedule = rival_of_own->schedule;
  recipe.unsent = plan::Recipe().unsent;
  const plan::PlanSet rival = plan::compile(plan.program, plan.mesh, recipe);
  const double own_s = step_seconds(plan), rival_s = step_seconds(rival);
  const std::int64_t own_bytes = peak(plan), rival_bytes = peak(rival);
  if (rival_s > own_s * kAsLong || rival_bytes > own_bytes) return "";
  const auto costs = [](double seconds, std::int64_t bytes) {
    return fmt::format("{} and {}", seconds_text(seconds), bytes_text(static_cast<double>(bytes)));
  };
  return fmt::format(
      "{0} takes {1} a step on the fullest rank, parallel.schedule={2} {3}: {0} gains by {4}",
      name(plan.recipe.schedule), costs(own_s, own_bytes), name(recipe.schedule),
      costs(rival_s, rival_bytes), rival_of_own->gains_by);
}

}  // namespace trireme::simulate
