#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/grid.h"
#include "trireme/plan/schedules/walk.h"

namespace trireme::schedules {
namespace {

double duration(Work work, const StageCost& cost) {
  switch (work) {
    case Work::kForward: return cost.forward;
    case Work::kBackwardInput: return cost.input;
    case Work::kBackwardWeight: return cost.weight;
    default: return cost.input + cost.weight;
  }
}

}  // namespace

GridTimes time_grid(const Grid& grid, const ScheduleShape& shape) {
  const int stages = grid.ranks() * grid.chunks;
  const auto count = static_cast<std::size_t>(grid.micro_batches);
  TRIREME_CHECK(shape.stages.empty() || static_cast<int>(shape.stages.size()) == stages,
                "{} stage costs for {} stages", shape.stages.size(), stages);
  GridTimes times;
  for (const Row& row : grid.rows) times.at.emplace_back(row.size());
  std::vector<double> forward_end(static_cast<std::size_t>(stages) * count);
  std::vector<double> input_end(forward_end.size());
  const auto arrival = [&](const std::vector<double>& end, int from, int rank, int mb) {
    const bool crosses = rank_of(grid.placement, grid.ranks(), from) != rank;
    return end[static_cast<std::size_t>(from) * count + static_cast<std::size_t>(mb)] +
           (crosses ? shape.transfer : 0);
  };
  Walk walk(grid);
  walk.run([&](int rank, std::size_t place, Action action, int stage) {
    auto& row = times.at[rank];
    double start = place == 0 ? 0 : row[place - 1].second;
    if (action.work == Work::kForward && stage > 0)
      start = std::max(start, arrival(forward_end, stage - 1, rank, action.mb));
    if ((action.work == Work::kBackward || action.work == Work::kBackwardInput) &&
        stage < stages - 1)
      start = std::max(start, arrival(input_end, stage + 1, rank, action.mb));
    const StageCost cost = shape.stages.empty() ? StageCost{} : shape.stages[stage];
    const double end = start + duration(action.work, cost);
    const std::size_t at =
        static_cast<std::size_t>(stage) * count + static_cast<std::size_t>(action.mb);
    if (action.work == Work::kForward)
      forward_end[at] = end;
    else if (action.work != Work::kBackwardWeight)
      input_end[at] = end;
    row[place] = {start, end};
  });
  TRIREME_CHECK(!walk.stuck(), "pipeline rank {} waits forever for {}", *walk.stuck(),
                walk.missing(*walk.stuck()));
  for (const auto& row : times.at) {
    if (row.empty()) continue;
    times.makespan = std::max(times.makespan, row.back().second);
    times.longest_rank = std::max(times.longest_rank, row.back().second - row.front().first);
  }
  times.peak_activations = peak_activations(grid);
  times.peak_memory = peak_activations(grid, shape.kept);
  return times;
}

}  // namespace trireme::schedules
