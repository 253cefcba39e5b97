#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "bench/layouts/pair.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/offload.h"

namespace trireme::layouts {
namespace {

using mesh::Axis;

bool power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

// "((0 1) (2 3))": how so many sums are added.
std::string tree(const std::vector<std::string>& leaves) {
  if (leaves.empty()) return "";
  std::vector<std::string> level = leaves;
  while (level.size() > 1) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? fmt::format("({} {})", level[i], level[i + 1])
                                          : level[i]);
    level = std::move(next);
  }
  return level[0];
}

// How the gradients of a unit's users are added, where several chunks have some: "(embed head)".
std::string chunk_sums(const plan::PlanSet& plan, plan::UnitId unit) {
  const plan::GradientFlow flow = plan::gradient_flow(plan.program);
  std::vector<std::string> ranks;
  for (int stage : plan::stages_of_unit(plan.program, unit)) {
    std::vector<std::string> chunks;
    int last = -1;
    for (plan::NodeId user : plan::gradient_users(plan.program, flow, unit, stage)) {
      const plan::Node& node = plan.program.nodes[static_cast<std::size_t>(user)];
      if (node.chunk != std::exchange(last, node.chunk)) chunks.emplace_back();
      chunks.back() += (chunks.back().empty() ? "" : "+") + node.name;
    }
    if (!chunks.empty()) ranks.push_back(tree(chunks));
  }
  return tree(ranks);
}

// Whether the layout adds micro-batches as one rank does: what is added first are aligned blocks of the tree, of a power
// of two of leaves, or single leaves.
bool adds_as_one(const Planned& planned) {
  const plan::Recipe& recipe = planned.plan.recipe;
  const plan::DataParallelRow row = plan::data_parallel_row(recipe.zero);
  const int shards = planned.plan.mesh.degree(Axis::kDpShard);
  const int replicas = planned.plan.mesh.degree(Axis::kDpReplicate);
  if (shards * replicas == 1) return true;
  const int of_rank = recipe.micro_batches, of_replica = of_rank * shards;
  if (row.reduce_each_mb && shards > 1 && replicas == 1)
    return power_of_two(shards) || recipe.offload.grads == plan::Tier::kNone;
  const bool shards_first = row.sharded_states && shards > 1 && replicas > 1;
  return power_of_two(shards_first ? of_replica : of_rank);
}

// Whether every data-parallel rank has the same micro-batches of the global batch in both.
bool same_micro_batches(const plan::PlanSet& one, const plan::PlanSet& other) {
  const plan::Recipe &a = one.recipe, &b = other.recipe;
  for (const Axis axis : {Axis::kDpShard, Axis::kDpReplicate})
    if (one.mesh.degree(axis) != other.mesh.degree(axis)) return false;
  const bool strided = plan::data_parallel_row(a.zero).reduce_each_mb;
  return strided == plan::data_parallel_row(b.zero).reduce_each_mb ||
         one.mesh.degree(Axis::kDpShard) == 1 || a.micro_batches == 1;
}

}  // namespace

Promise promise_of(const Planned& one, const Planned& other) {
  for (const Planned* planned : {&one, &other})
    if (planned->plan.mesh.degree({Axis::kTp, Axis::kCp}) > 1)
      return {.bits = false, .exception = "tensor and context parallelism"};
  const bool same = same_micro_batches(one.plan, other.plan);
  if ((one.job.vlm.balance || other.job.vlm.balance) && !same)
    return {.bits = false, .exception = "vlm.balance"};
  if (std::ranges::any_of(one.plan.program.nodes, &plan::Node::joint) && !same)
    return {.bits = false, .exception = "losses over the global batch"};
  if (!adds_as_one(one) || !adds_as_one(other))
    return {.bits = false, .exception = "blocks that are no power of two"};
  for (plan::UnitId unit = 0; unit < static_cast<plan::UnitId>(one.plan.program.units.size());
       ++unit)
    if (chunk_sums(one.plan, unit) != chunk_sums(other.plan, unit))
      return {.bits = false, .exception = "tied weights in several chunks"};
  return {};
}

}  // namespace trireme::layouts
