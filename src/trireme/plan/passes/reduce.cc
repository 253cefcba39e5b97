#include "trireme/plan/passes/reduce.h"

#include <algorithm>
#include <map>

namespace trireme::plan {
namespace {

using mesh::Axis;
using mesh::AxisSet;

// The axes along which there is more than one rank.
AxisSet real_axes(const mesh::Mesh& mesh, AxisSet axes) {
  AxisSet real;
  for (Axis axis : mesh::kAllAxes)
    if (axes.contains(axis) && mesh.degree(axis) > 1) real = real | axis;
  return real;
}

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
  const AxisSet scattered = row.sharded_states ? real_axes(stage.mesh, Axis::kDpShard) : AxisSet();
  const AxisSet rest = real_axes(stage.mesh, mesh::kDp) - scattered;
  Insertion insertion(list);
  for (UnitId unit : units_of_stage(stage.program, stage.index)) {
    const std::vector<NodeId> users = gradient_users(stage.program, stage.flow, unit, stage.index);
    std::map<int, std::size_t> completed;  // micro-batch to the last line that adds to its gradient
    for (std::size_t i = 0; i < list.size(); ++i)
      if (adds_gradients(list[i]) && std::ranges::binary_search(users, list[i].node))
        completed[list[i].mb] = i;
    if (completed.empty()) continue;
    const std::size_t last = std::ranges::max_element(completed, {}, [](const auto& entry) {
                               return entry.second;
                             })->second;
    if (!scattered.empty() && row.reduce_each_mb)
      for (const auto& [mb, line] : completed)
        insertion.after(line, reduction(unit, mb, scattered, true));
    if (!scattered.empty() && !row.reduce_each_mb)
      insertion.after(last, reduction(unit, -1, scattered, true));
    if (!rest.empty()) insertion.after(last, reduction(unit, -1, rest, false));
  }
  return insertion.build();
}

}  // namespace trireme::plan
