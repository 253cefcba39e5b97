#include "trireme/plan/text/communications.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/plan/coded_gather.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/matrix_updates.h"
#include "trireme/plan/low_rank.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

// Bytes of the whole buffer that a collective or transfer is about.
double payload(const PlanSet& plan, int rank, const Instr& line) {
  if (line.verb == Verb::kReload || line.verb == Verb::kOffload)
    return static_cast<double>(transit_bytes(plan, plan.mesh.coordinate(rank, Axis::kPp), line));
  if (line.value >= 0) return static_cast<double>(plan.program.values[line.value].bytes);
  if (line.unit < 0) return 0;
  if (line.verb == Verb::kExchangeUpdate)
    return static_cast<double>(
        MatrixUpdates(plan, line.unit).bytes(share_of(plan, line.unit).part));
  const Reduction reduction = reduction_of(plan.program, line);
  if (reduction == Reduction::kParts)
    return static_cast<double>(plan.program.units[line.unit].tp_partial) *
           static_cast<double>(size_of(reduce_type(plan.recipe)));
  if (line.coded && line.verb == Verb::kUnshard)
    return static_cast<double>(gathered_codes(plan, line.unit).bytes());
  if (line.coded && sums_at_low_rank(plan.recipe)) {
    const LowRank low = low_rank(plan, line.unit);
    return static_cast<double>(low.summed_bytes(low_rank_place(plan, rank, line.unit)));
  }
  if (line.coded) {
    const CodedReduction coded = coded_reduction(plan, line.unit);
    return static_cast<double>(coded.exponents() + coded.sent_bytes(coded.count) +
                               (coded.scatters ? 0 : coded.back_bytes(coded.count)));
  }
  if (const auto coded = coded_merge(plan, line.unit); line.verb == Verb::kOuterReduce && coded)
    return static_cast<double>(coded->code_bytes(coded->count) + coded->back_bytes(coded->count));
  const bool merges = line.verb == Verb::kOuterReduce;
  const bool parts = merges || reduction == Reduction::kTied || reduction == Reduction::kAllReduce;
  const UnitShare share = share_of(plan, line.unit);
  const DType type = line.verb == Verb::kUnshard
                         ? param_type(plan.recipe, plan.program.units[line.unit])
                     : merges ? plan.recipe.master
                              : reduce_type(plan.recipe);
  return static_cast<double>(parts ? share.part : share.full) * static_cast<double>(size_of(type));
}

}  // namespace

std::vector<Communication> communications(const PlanSet& plan, int rank) {
  std::vector<Communication> all;
  const auto entry = [&](const std::string& what) -> Communication& {
    const auto found = std::ranges::find(all, what, &Communication::what);
    return found != all.end() ? *found : all.emplace_back(Communication{.what = what});
  };
  for (const Instr& line : plan.list(rank)) {
    if (line.node >= 0)
      for (const NodeExchange& one : plan.program.nodes[line.node].exchanges) {
        const int times = plan::times(plan.program.nodes[line.node], one, line.verb);
        if (times == 0) continue;
        Communication& inside =
            entry(fmt::format("{} in blocks over {}", name(one.kind), mesh::print(one.axes)));
        inside.count += times;
        inside.bytes += times * static_cast<double>(one.bytes);
      }
    if (line.lane == Lane::kComp) continue;
    std::string what(name(line.verb));
    if (line.verb == Verb::kReduceGrads)
      what = fmt::format("reduce_grads ({}{})", line.scatter ? "scatter" : "all",
                         line.coded ? ", coded" : "");
    if (line.verb == Verb::kUnshard && line.coded) what += " (coded)";
    if (line.within > 0) what += fmt::format(" within {} ranks", line.within);
    if (line.tensors != TensorKind::kNone) what += fmt::format(" {}", name(line.tensors));
    if (line.verb == Verb::kReload || line.verb == Verb::kOffload)
      what += line.value >= 0 ? " values" : "";
    if (line.gradient) what += " gradient";
    if (line.peer >= 0) what += fmt::format(" stage {}", line.peer);
    if (!line.axes.empty()) what += " over " + mesh::print(line.axes);
    Communication& one = entry(what);
    ++one.count;
    one.bytes += payload(plan, rank, line);
  }
  return all;
}

}  // namespace trireme::plan
