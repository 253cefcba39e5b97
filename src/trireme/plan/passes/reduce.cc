#include "trireme/plan/passes/reduce.h"

#include <algorithm>
#include <map>
#include <set>

namespace trireme::plan {

using mesh::Axis;
using mesh::AxisSet;

List reduce(const Stage& stage, List list) {
  const DataParallelRow row = data_parallel_row(stage.recipe.zero);
  const AxisSet scattered = row.sharded_states ? stage.mesh.real(mesh::kShards) : AxisSet();
  const AxisSet rest = stage.mesh.real(mesh::kReplicas) - scattered;
  Insertion insertion(list);
  for (UnitId unit : units_of_stage(stage.program, stage.index)) {
    const std::vector<NodeId> users = gradient_users(stage.program, stage.flow, unit, stage.index);
    std::map<std::pair<int, int>, std::size_t> completed;  // (chunk, micro-batch): last line to add
    std::size_t last = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!adds_gradients(list[i]) || !std::ranges::binary_search(users, list[i].node)) continue;
      completed[{stage.node(list[i].node).chunk, list[i].mb}] = last = i;
    }
    if (completed.empty()) continue;
    const bool partial = stage.program.units[unit].tp_partial > 0;
    const bool each = !scattered.empty() && row.reduce_each_mb;
    const auto add = [&](std::size_t line, AxisSet axes, bool scatter, int mb, int chunk) {
      insertion.after(line, {.verb = Verb::kReduceGrads,
                             .lane = Lane::kDp,
                             .unit = unit,
                             .mb = mb,
                             .chunk = chunk,
                             .axes = axes,
                             .scatter = scatter});
    };
    if (each)
      for (const auto& [key, line] : completed) {
        if (partial) add(line, Axis::kTp, false, key.second, key.first);
        add(line, scattered, true, key.second, key.first);
      }
    // Over ranks before chunks are added up, whatever the row: so every row adds in one order.
    std::set<int> chunks;
    for (const auto& [key, line] : completed) chunks.insert(key.first);
    for (const int chunk : chunks) {
      if (partial && !each) add(last, Axis::kTp, false, -1, chunk);
      if (!scattered.empty() && !each) add(last, scattered, true, -1, chunk);
      if (!rest.empty()) add(last, rest, false, -1, chunk);
    }
  }
  return insertion.build();
}

}  // namespace trireme::plan
