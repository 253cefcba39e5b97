#include "trireme/plan/simulate/critical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trireme/base/error.h"

namespace trireme::simulate {
namespace {

using mesh::Axis;
using plan::PlanSet;
using plan::Verb;

const LineTime& time(const Forecast& forecast, const LineRef& at) {
  return forecast.lists[at.list].lines[at.line];
}

LineRef last_line(const Forecast& forecast) {
  LineRef last;
  for (int list = 0; list < static_cast<int>(forecast.lists.size()); ++list)
    for (int line = 0; line < static_cast<int>(forecast.lists[list].lines.size()); ++line)
      if (const LineRef at{.list = list, .line = line};
          last.list < 0 || time(forecast, at).end > time(forecast, last).end)
        last = at;
  return last;
}

}  // namespace

std::string_view name(PathKind kind) {
  constexpr std::string_view kNames[] = {"forward",   "recomputation", "backward",  "weight",
                                         "transfers", "collectives",   "optimizer", "offload"};
  return kNames[static_cast<std::size_t>(kind)];
}

PathKind kind_of(const plan::Instr& line) {
  switch (line.verb) {
    case Verb::kRecompute: return PathKind::kRecompute;
    case Verb::kBackward:
    case Verb::kBackwardInput: return PathKind::kBackward;
    case Verb::kBackwardWeight: return PathKind::kWeight;
    case Verb::kSend:
    case Verb::kRecv: return PathKind::kTransfer;
    case Verb::kUnshard:
    case Verb::kReduceGrads:
    case Verb::kSyncTied:
    case Verb::kGradNorm:
    case Verb::kExchangeUpdate:
    case Verb::kOuterReduce: return PathKind::kCollective;
    case Verb::kUpdateMatrices:
    case Verb::kStep:
    case Verb::kEma:
    case Verb::kOuterStep: return PathKind::kStep;
    case Verb::kReload:
    case Verb::kOffload: return PathKind::kOffload;
    default: return PathKind::kForward;
  }
}

std::vector<PathPart> critical_path(const Forecast& forecast) {
  std::vector<PathPart> path;
  double until = forecast.step_s;
  for (LineRef at = last_line(forecast); at.list >= 0;) {
    const ListForecast& list = forecast.lists[at.list];
    const double start = time(forecast, at).start;
    TRIREME_CHECK(start <= until, "list {} line {} starts at {} and is waited for at {}", at.list,
                  at.line, start, until);
    if (start < until) path.push_back({.at = at, .start = start, .end = until});
    until = start;
    at = list.cause[at.line];
  }
  std::ranges::reverse(path);
  return path;
}

std::vector<PathShare> path_shares(const PlanSet& plan, const Forecast& forecast) {
  std::map<std::pair<PathKind, int>, double> seconds;
  for (const PathPart& part : critical_path(forecast)) {
    const auto rank = std::ranges::find(plan.list_of_rank, part.at.list);
    const int stage =
        plan.mesh.coordinate(static_cast<int>(rank - plan.list_of_rank.begin()), Axis::kPp);
    const plan::Instr& line = plan.lists[part.at.list][part.at.line];
    seconds[{kind_of(line), stage}] += part.end - part.start;
  }
  std::vector<PathShare> shares;
  for (const auto& [key, sum] : seconds)
    shares.push_back({.kind = key.first, .stage = key.second, .seconds = sum});
  std::ranges::stable_sort(shares, std::greater(), &PathShare::seconds);
  return shares;
}

std::string bound_by(const PlanSet& plan, const Forecast& forecast) {
  constexpr std::size_t kOthers = 3;
  const std::vector<PathShare> shares = path_shares(plan, forecast);
  if (shares.empty()) return "";
  std::map<PathKind, double> sums;
  for (const PathShare& one : shares) sums[one.kind] += one.seconds;
  std::vector<std::pair<double, PathKind>> kinds;
  for (const auto& [kind, seconds] : sums) kinds.emplace_back(seconds, kind);
  std::ranges::stable_sort(kinds, std::greater(), [](const auto& one) { return one.first; });
  const auto [most, kind] = kinds.front();
  const auto percent = [&](double seconds) { return 100 * seconds / forecast.step_s; };

  // One stage is named where it has more of it than all others, and more than there is of any other kind.
  const PathShare& stage = *std::ranges::find(shares, kind, &PathShare::kind);
  const double next = kinds.size() > 1 ? kinds[1].first : 0;
  const bool here = stage.seconds > most / 2 && stage.seconds >= next;
  std::string text = fmt::format("bound by {}", name(kind));
  if (plan.mesh.degree(Axis::kPp) > 1)
    text += here ? fmt::format(" on stage {}", stage.stage) : " on several stages";
  text += fmt::format(": {:.0f}% of the critical path", percent(here ? stage.seconds : most));
  if (here) kinds.front().first -= stage.seconds;
  kinds.front().first *= here;
  std::ranges::stable_sort(kinds, std::greater(), [](const auto& one) { return one.first; });
  for (std::size_t i = 0; i < std::min(kOthers, kinds.size()); ++i)
    if (percent(kinds[i].first) >= 0.5)
      text += fmt::format("{} {}{} {:.0f}%", i == 0 ? ";" : ",", name(kinds[i].second),
                          kinds[i].second == kind ? " elsewhere" : "", percent(kinds[i].first));
  return text;
}

}  // namespace trireme::simulate
