#include "trireme/plan/gradient_sums.h"

#include <fmt/format.h>

#include <map>

#include "trireme/base/text.h"
#include "trireme/plan/binary_counter.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/unit_share.h"

namespace trireme::plan {
namespace {

GradientSums sums_of_stage(const PlanSet& plan, int row, int stage) {
  const GradientFlow flow = gradient_flow(plan.program);
  GradientSums sums;
  for (UnitId unit : units_of_stage(plan.program, stage)) {
    std::map<int, int> counts;  // gradients of a chunk
    for (NodeId id : gradient_users(plan.program, flow, unit, stage)) {
      const Node& node = plan.program.nodes[id];
      counts[node.chunk] = rounds(node, plan.recipe.micro_batches) * leaves_of(plan, unit);
    }
    const std::int64_t level = space_of(plan, unit, stage).level;
    for (const auto& [chunk, count] : counts) {
      const int senders = senders_of_rank(plan, unit);
      sums.kept += level * (senders - 1 + most_sums(count / senders, row));
      sums.least += level * senders;
    }
  }
  return sums;
}

GradientSums sums_in_rows(const PlanSet& plan, int row) {
  GradientSums most;
  for (int stage = 0; stage < stage_count(plan.program); ++stage)
    if (const GradientSums sums = sums_of_stage(plan, row, stage); sums.kept > most.kept)
      most = sums;
  return most;
}

}  // namespace

GradientSums gradient_sums(const PlanSet& plan) {
  return sums_in_rows(plan, summed_in_row(plan.recipe));
}

std::string gradient_sums_text(const PlanSet& plan) {
  const Recipe& recipe = plan.recipe;
  const GradientSums sums = gradient_sums(plan);
  if (recipe.group > 1)
    return fmt::format(
        "groups of {0} micro-batches: sums of gradients take {1} a rank, where precision.group=1 "
        "takes {2}; bits are equal on ranks with multiples of {0} micro-batches",
        recipe.group, bytes_text(sums.kept), bytes_text(sums_in_rows(plan, 1).kept));
  if (!recipe.canonical || sums.kept == sums.least) return "";
  return fmt::format(
      "canonical sums of {0} micro-batches take {1} a rank, where precision.group={0} takes {2}, "
      "with equal bits on ranks with multiples of {0} micro-batches",
      recipe.micro_batches, bytes_text(sums.kept), bytes_text(sums.least));
}

}  // namespace trireme::plan
