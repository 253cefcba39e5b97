// Shared inputs of layouts for closed forms: the prices of a program's nodes.
#include <algorithm>
#include <set>

#include "trireme/config/families.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/matrix_updates.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/unit_types.h"
#include "trireme/planner/cost/pricing.h"
#include "trireme/planner/search/screen.h"

namespace trireme::planner {
namespace {

using plan::Verb;
using schedules::Schedule;

NodeCosts costs_of(const Pricing& pricing, const plan::Program& program, const plan::Node& node,
                   bool has_backward) {
  NodeCosts costs;
  costs.forward = pricing.node(node, Verb::kForward);
  const bool recomputed = node.segment >= 0;
  if (has_backward) {
    costs.weight = pricing.node(node, Verb::kBackwardWeight);
    costs.input = pricing.node(node, Verb::kBackward) - costs.weight;
    if (recomputed) costs.input += costs.forward;
  }
  double reads = 0, writes = 0;
  for (const plan::ValueId value : node.reads) reads += program.values[value].bytes;
  for (const plan::ValueId value : node.writes)
    if (!node.loss) writes += program.values[value].bytes;
  const auto kept = static_cast<double>(plan::kept_bytes(node));
  if (has_backward) costs.kept = reads + (recomputed ? 0 : kept);
  costs.waiting = node.split ? static_cast<double>(node.split->kept_bytes) : 0;
  const auto back = static_cast<double>(node.work.backward + plan::work_bytes(node));
  const auto front = static_cast<double>(node.work.forward + plan::dropped_bytes(node));
  costs.transient = std::max(front, reads + back) + writes + (recomputed ? kept : 0);
  for (const plan::UnitId id : node.units) {
    const plan::Unit& unit = program.units[id];
    costs.numel += static_cast<double>(unit.numel);
    if (unit.trainable) costs.trained += static_cast<double>(unit.numel);
  }
  costs.flops = node.flops + has_backward * node.backward_flops.value_or(2 * node.flops);
  return costs;
}

void add(NodeCosts& sum, const NodeCosts& one, double share) {
  sum.forward += share * one.forward;
  sum.input += share * one.input;
  sum.weight += share * one.weight;
  sum.kept += share * one.kept;
  sum.waiting += share * one.waiting;
  sum.transient = std::max(sum.transient, one.transient);
  sum.numel += share * one.numel;
  sum.trained += share * one.trained;
  sum.flops += share * one.flops;
}

}  // namespace

std::int64_t nodes_of(const config::Job& job) {
  constexpr std::int64_t kEnds = 2;  // embedding and head
  return config::info(job).chain ? job.model.layers + kEnds
                                 : std::ssize(model::describe(job).program.nodes);
}

// Where optimizers differ: means over all elements that train.
void Screen::count_matrices() {
  const plan::Recipe recipe = model::recipe_of(alone_);
  double elements = 0, bytes = 0, flops = 0;
  for (const plan::Unit& unit : model::describe(alone_).program.units) {
    if (!unit.trainable) continue;
    elements += static_cast<double>(unit.numel);
    bytes += static_cast<double>(plan::state_bytes(recipe, unit, unit.numel));
    for (const plan::Matrix& matrix : unit.matrices)
      if (unit.by_matrix) flops += plan::update_flops(matrix, recipe.matrix_rounds);
  }
  states_ = bytes / elements;
  matrix_flops_ = flops / elements;
}

config::Job Screen::job_of(const Layout& layout) const {
  config::Job job = alone_;
  Layout alike = layout;
  alike.pp = alike.dp_replicate = alike.dp_shard = alike.chunks = 1;
  alike.schedule = Schedule::k1F1B;
  alike.zero = 0;
  job = with_layout(std::move(job), alike);
  // Its groups, wherever they lie among all ranks.
  job.parallel.dp_replicate = layout.world() / (layout.tp * layout.cp);
  // The second screen chooses recomputation that fits, for real ranks; until then whole blocks, which need least.
  if (job.recompute.policy == config::RecomputePolicy::kAuto) {
    job.recompute.policy = config::RecomputePolicy::kFull;
    job.recompute.memory = {};
  }
  return job;
}

// The first node, what comes after the last block, and the mean of those between.
Parts Screen::make_parts(const Layout& layout) const {
  config::Job job = job_of(layout);
  // Of a model all of which trains, one block is like all.
  const bool one = config::info(job).chain && job.lora.rank == 0 && job.model.frozen.empty() &&
                   job.precision.nodes.empty() && layout.recomputed != Recomputed::kAsGiven;
  if (one) job.model.layers = 1;
  const model::ModelSpec model = model::describe(job);
  const plan::Program& program = model.program;
  const std::vector<plan::Node>& nodes = program.nodes;
  const Pricing pricing(job, model, question_.practice, question_.cluster);
  const plan::GradientFlow flow = plan::gradient_flow(program);
  std::size_t head = nodes.size() - 1;
  while (head > 1 && model.layers[head - 1].empty()) --head;
  if (head == 1) head = nodes.size() - 1;
  const double between = std::max(static_cast<double>(head) - 1, 1.0);
  Parts parts;
  parts.layers = one ? static_cast<double>(alone_.model.layers) : between;
  std::set<plan::UnitId> held;
  const std::set<plan::UnitId> first(nodes.front().units.begin(), nodes.front().units.end());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    plan::Node node = nodes[n];
    // Units of several nodes are there once, but a head may be on another rank than the table.
    std::erase_if(node.units, [&](plan::UnitId unit) {
      if (held.insert(unit).second) return false;
      const bool table = n >= head && first.contains(unit);
      if (table) parts.shared = static_cast<double>(program.units[unit].numel);
      return !table;
    });
    const NodeCosts costs = costs_of(pricing, program, node, flow.node_has_backward[n]);
    if (n == 0)
      add(parts.embed, costs, 1);
    else
      add(n < head ? parts.block : parts.head, costs, n < head ? 1 / between : 1);
  }
  for (const plan::Value& value : program.values)
    if (value.differentiable && !value.shape.empty())
      parts.boundary = std::max(parts.boundary, static_cast<double>(value.bytes));
  for (const plan::Unit& unit : program.units)
    if (unit.ema_of >= 0) parts.averaged += static_cast<double>(unit.numel);
  return parts;
}

}  // namespace trireme::planner
