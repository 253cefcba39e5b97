#include "trireme/plan/simulate/pictures/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/plan/actions.h"

namespace trireme::simulate::pictures {
namespace {

using plan::Instr;
using plan::Lane;
using plan::List;
using plan::PlanSet;
using plan::Verb;

BoxKind kind_of(schedules::Work work) {
  constexpr BoxKind kKinds[] = {BoxKind::kForward, BoxKind::kBackward, BoxKind::kInput,
                                BoxKind::kWeight};
  return kKinds[static_cast<int>(work)];
}

// What each line would be a box of.
std::vector<Box> line_boxes(const PlanSet& plan, const List& list) {
  std::vector<Box> all(list.size());
  for (const plan::ActionLines& action : plan::actions(plan.program, list))
    for (int line = action.first; line <= action.last; ++line)
      if (const Instr& one = list[line]; computes(one))
        all[line] = {.kind = one.verb == Verb::kRecompute ? BoxKind::kRecompute
                                                          : kind_of(action.action.work),
                     .chunk = action.action.chunk,
                     .mb = action.action.mb};
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].verb == Verb::kStep || list[i].verb == Verb::kUpdateMatrices ||
        list[i].verb == Verb::kEma || list[i].verb == Verb::kOuterStep)
      all[i].kind = BoxKind::kStep;
  return all;
}

}  // namespace

std::vector<Timeline> timelines(const PlanSet& plan, const Forecast& forecast) {
  std::vector<Timeline> all;
  for (std::size_t list = 0; list < plan.lists.size(); ++list) {
    const auto rank = static_cast<int>(
        std::ranges::find(plan.list_of_rank, static_cast<int>(list)) - plan.list_of_rank.begin());
    const ListForecast& one = forecast.lists[list];
    Timeline timeline{.rank = rank,
                      .label = fmt::format("stage {}, rank {}",
                                           plan.mesh.coordinate(rank, mesh::Axis::kPp), rank),
                      .times = one.lines};
    for (const plan::MemoryPoint& point : one.memory.at_line)
      timeline.live.push_back(std::accumulate(point.begin(), point.end(), std::int64_t{0}));
    all.push_back(std::move(timeline));
  }
  return all;
}

double duration(const std::vector<Timeline>& timelines) {
  double last = 0;
  for (const Timeline& one : timelines)
    for (const LineTime& line : one.times) last = std::max(last, line.end);
  return last;
}

std::string_view name(BoxKind kind) {
  constexpr std::string_view kNames[] = {
      "forward",       "backward",       "backward, inputs", "backward, weights",
      "recomputation", "optimizer step", "loading"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<Box> boxes(const PlanSet& plan, const Timeline& timeline, double seam) {
  const List& list = plan.list(timeline.rank);
  TRIREME_CHECK(timeline.times.size() == list.size(), "{} times for {} lines of rank {}",
                timeline.times.size(), list.size(), timeline.rank);
  std::vector<Box> all;
  const std::vector<Box> of_line = line_boxes(plan, list);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const LineTime& time = timeline.times[i];
    if (list[i].lane != Lane::kComp || time.end <= time.start) continue;
    const Box& box = of_line[i];
    const bool goes_on = !all.empty() && all.back().kind == box.kind && all.back().mb == box.mb &&
                         all.back().chunk == box.chunk && time.start - all.back().end <= seam;
    if (!goes_on) {
      all.push_back(box);
      all.back().start = time.start;
    }
    all.back().end = time.end;
  }
  return all;
}

std::vector<MemoryPointInTime> memory_curve(const PlanSet& plan, const Timeline& timeline) {
  std::vector<MemoryPointInTime> curve;
  const List& list = plan.list(timeline.rank);
  std::int64_t waiting = 0;
  for (std::size_t i = 0; i < timeline.live.size(); ++i) {
    const std::int64_t live = std::max(timeline.live[i], waiting);
    waiting = list[i].lane == Lane::kComp ? 0 : live;
    if (list[i].lane == Lane::kComp)
      curve.push_back({.at = timeline.times[i].start, .bytes = live});
  }
  return curve;
}

}  // namespace trireme::simulate::pictures
