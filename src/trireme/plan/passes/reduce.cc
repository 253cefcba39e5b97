#include "trireme/plan/passes/reduce.h"

#include <algorithm>
#include <map>

namespace trireme::plan {
namespace {

using mesh::Axis;
using mesh::AxisSet;

Instr reduction(UnitId unit, int mb, AxisSet axes, bool scatter) {
  return {.verb = Verb::kReduceGrads,
          .lane = Lane::kDp,
          .unit = unit,
          .mb = mb,
          .axes = axes,
          .scatter = scatter};
}

}  // namespace

List reduce(const Stage& stage, List list) {
  const DataParallelRow row = data_parallel_row(stage.recipe.zero);
  const AxisSet scattered = row.sharded_states ? stage.mesh.real(mesh::kShards) : AxisSet();
  const AxisSet rest = stage.mesh.real(mesh::kReplicas) - scattered;
  Insertion insertion(list);
  for (UnitId unit : units_of_stage(stage.program, stage.index)) {
    const std::vector<NodeId> users = gradient_users(stage.program, stage.flow, unit, stage.index);
    std::map<int, std::size_t> completed;  // micro-batch to the last line that adds to its gradient
    for (std::size_t i = 0; i < list.size(); ++i)
      if (adds_gradients(list[i]) && std::ranges::binary_search(users, list[i].node))
        completed[list[i].mb] = i;
    if (completed.empty()) continue;
    const bool partial = stage.program.units[unit].tp_partial > 0;
    const std::size_t last = std::ranges::max_element(completed, {}, [](const auto& entry) {
                               return entry.second;
                             })->second;
    const bool each = !scattered.empty() && row.reduce_each_mb;
    for (const auto& [mb, line] : completed) {
      if (partial && each) insertion.after(line, reduction(unit, mb, Axis::kTp, false));
      if (each) insertion.after(line, reduction(unit, mb, scattered, true));
    }
    if (partial && !each) insertion.after(last, reduction(unit, -1, Axis::kTp, false));
    if (!scattered.empty() && !row.reduce_each_mb)
      insertion.after(last, reduction(unit, -1, scattered, true));
    if (!rest.empty()) insertion.after(last, reduction(unit, -1, rest, false));
  }
  return insertion.build();
}

}  // namespace trireme::plan
