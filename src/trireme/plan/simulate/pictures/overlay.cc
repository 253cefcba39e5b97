#include "trireme/plan/simulate/pictures/overlay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trireme/plan/simulate/critical_path.h"
#include "trireme/plan/simulate/pictures/svg.h"
#include "trireme/plan/simulate/pictures/trace.h"

namespace trireme::simulate::pictures {

void write_timeline(const Path& directory, const plan::PlanSet& plan, const Forecast& forecast,
                    const RankTimes& times, std::int64_t step) {
  const RankTimes measured = on_one_clock(plan, times);
  const auto as_measured = [&](int rank) {
    return Timeline{
        .rank = rank, .label = fmt::format("rank {} measured", rank), .times = measured[rank]};
  };
  std::vector<Timeline> rows, processes;
  for (int rank = 0; rank < plan.mesh.world(); ++rank) processes.push_back(as_measured(rank));
  for (Timeline& planned : timelines(plan, forecast)) {
    planned.label = fmt::format("rank {} forecast", planned.rank);
    rows.push_back(as_measured(planned.rank));
    processes.push_back(planned);
    rows.push_back(std::move(planned));
  }
  const double taken = duration({processes.begin(), processes.begin() + plan.mesh.world()});
  trace(plan, processes).write(directory / "trace.json");
  replace_file(
      directory / "timeline.svg",
      svg(plan, rows,
          {.title = fmt::format("{}: step {}, measured over forecast", plan.program.name, step),
           .subtitle = fmt::format("{:.4g} ms measured, {:.4g} ms forecast; forecast {}",
                                   1e3 * taken, 1e3 * forecast.step_s, bound_by(plan, forecast))}));
  replace_file(directory / "node_costs.json", node_costs(plan, times).dump(1) + "\n");
}

}  // namespace trireme::simulate::pictures
