#include "trireme/plan/passes/reduce.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "trireme/plan/coded_reduction.h"

namespace trireme::plan {

using mesh::AxisSet;

List reduce(const Stage& stage, List list) {
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
    const UnitSharing sharing = stage.sharing(unit);
    const AxisSet partial = stage.program.units[unit].tp_partial > 0
                                ? stage.program.units[unit].axes.partial
                                : AxisSet();
    const bool each = sharing.scatters_each;
    const auto add = [&](std::size_t line, AxisSet axes, bool scatter, int mb, int chunk) {
      Instr reduction{.verb = Verb::kReduceGrads,
                      .lane = Lane::kDp,
                      .unit = unit,
                      .mb = mb,
                      .chunk = chunk,
                      .axes = axes,
                      .scatter = scatter};
      reduction.coded = is_coded(sharing, reduction);
      reduction.residual = reduction.coded && stage.recipe.coded->residual;
      reduction.within = within_of(stage.mesh, stage.recipe, reduction);
      insertion.after(line, std::move(reduction));
    };
    if (each)
      for (const auto& [key, line] : completed) {
        if (!partial.empty()) add(line, partial, false, key.second, key.first);
        add(line, sharing.shards, true, key.second, key.first);
      }
    // Over ranks before chunks are added up, whatever the row: so every row adds in one order.
    std::set<int> chunks;
    for (const auto& [key, line] : completed) chunks.insert(key.first);
    for (const int chunk : chunks) {
      if (!partial.empty() && !each) add(last, partial, false, -1, chunk);
      if (!sharing.shards.empty() && !each) add(last, sharing.shards, true, -1, chunk);
      if (!sharing.rest.empty()) add(last, sharing.rest, false, -1, chunk);
    }
  }
  return insertion.build();
}

}  // namespace trireme::plan
