#include "trireme/plan/simulate/update_cost.h"

#include <algorithm>

#include "trireme/plan/compile/matrix_updates.h"
#include "trireme/plan/unit_share.h"

namespace trireme::simulate {

using plan::Instr;
using plan::PlanSet;
using plan::Verb;

std::vector<Exchanged> update_exchanges(const PlanSet& plan, const Instr& line) {
  const plan::MatrixUpdates updates(plan, line.unit);
  const int ranks = updates.shards();
  if (ranks == 1) return {};
  std::int64_t moved = 0;
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) moved += from == to ? 0 : updates.moved(from, to);
  return {{.kind = plan::Exchange::kSendRecv,
           .axes = line.axes,
           .ranks = ranks,
           .bytes = static_cast<double>(updates.bytes(moved)) / (ranks * (ranks - 1)),
           .times = ranks - 1.0}};
}

double moved_by_direction(const PlanSet& plan, const Instr& line) {
  const bool exchanged = plan::exchanges_updates(
      plan::sharing_of(plan.mesh, plan.recipe, plan.program.units[line.unit]),
      plan.program.units[line.unit]);
  if (line.scatter || (exchanged && line.verb == Verb::kUpdateMatrices)) return 0;
  const auto part = static_cast<double>(plan::share_of(plan, line.unit).part);
  return part * static_cast<double>(3 * size_of(plan.recipe.master) + size_of(plan.recipe.grads));
}

double matrix_flops(const PlanSet& plan, plan::UnitId unit) {
  const plan::MatrixUpdates updates(plan, unit);
  double most = 0;
  for (int shard = 0; shard < updates.shards(); ++shard)
    most = std::max(most, updates.flops(shard));
  return most;
}

}  // namespace trireme::simulate
