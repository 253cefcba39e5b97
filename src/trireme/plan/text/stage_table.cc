#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/text.h"
#include "trireme/plan/actions.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/text/draw.h"
#include "trireme/plan/text/text.h"

namespace trireme::plan {
namespace {

struct StageSize {
  int nodes = 0;
  std::vector<std::pair<std::string, std::string>> chunks{};  // first and last node
  std::int64_t parameters = 0;
  double flops = 0;
};

std::vector<StageSize> sizes(const Program& program) {
  std::vector<StageSize> all(static_cast<std::size_t>(stage_count(program)));
  for (const Node& node : program.nodes) {
    StageSize& stage = all[node.stage];
    ++stage.nodes;
    stage.flops += node.flops;
    const auto chunk = static_cast<std::size_t>(node.chunk);
    if (stage.chunks.size() <= chunk) stage.chunks.resize(chunk + 1, {node.name, ""});
    stage.chunks[chunk].second = node.name;
  }
  for (UnitId unit = 0; unit < static_cast<UnitId>(program.units.size()); ++unit)
    for (int stage : stages_of_unit(program, unit))
      all[stage].parameters += program.units[unit].numel;
  return all;
}

std::string names(const StageSize& stage) {
  std::string text;
  for (const auto& [first, last] : stage.chunks)
    text += (text.empty() ? "" : ", ") + (first == last ? first : first + ".." + last);
  return text;
}

}  // namespace

std::string stage_table(const PlanSet& plan, const std::vector<StageNumbers>& stages, int rows) {
  const std::vector<StageSize> all = sizes(plan.program);
  double flops = 0;
  for (const StageSize& stage : all) flops += stage.flops;
  std::string text =
      fmt::format("\n{:<9} {:>5} {:<29} {:>15} {:>6} {:>12} {:>9} {:>9} {:>6}\n", "stages", "nodes",
                  "", "parameters", "flops", "peak memory", "busy", "idle", "idle");
  for (int index : shown_stages(static_cast<int>(all.size()), rows)) {
    if (index < 0) {
      text += fmt::format("  and {} between\n", static_cast<int>(all.size()) - rows + 1);
      continue;
    }
    const StageSize& stage = all[index];
    const StageNumbers& numbers = stages[index];
    const double step = numbers.busy_s + numbers.idle_s;
    text += fmt::format("  {:<7} {:>5} {:<29.29} {:>15} {:>5.1f}% {:>12} {:>9} {:>9} {:>5.1f}%\n",
                        index, stage.nodes, names(stage), grouped_text(stage.parameters),
                        flops > 0 ? 100 * stage.flops / flops : 0,
                        bytes_text(static_cast<double>(numbers.peak_bytes)),
                        seconds_text(numbers.busy_s), seconds_text(numbers.idle_s),
                        step > 0 ? 100 * numbers.idle_s / step : 0);
  }
  return text;
}

}  // namespace trireme::plan
