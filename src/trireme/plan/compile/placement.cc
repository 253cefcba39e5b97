#include "trireme/plan/compile/placement.h"

#include <algorithm>

#include "trireme/plan/instr.h"

namespace trireme::plan {
namespace {

void add_once(std::vector<int>& sorted, int id) {
  const auto at = std::ranges::lower_bound(sorted, id);
  if (at == sorted.end() || *at != id) sorted.insert(at, id);
}

}  // namespace

int stage_count(const Program& program) {
  int last = 0;
  for (const Node& node : program.nodes) last = std::max(last, node.stage);
  return last + 1;
}

int chunk_count(const Program& program) {
  int last = 0;
  for (const Node& node : program.nodes) last = std::max(last, node.chunk);
  return last + 1;
}

std::vector<NodeId> writers(const Program& program) {
  std::vector<NodeId> writer(program.values.size(), -1);
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    for (ValueId value : program.nodes[n].writes) writer[value] = static_cast<NodeId>(n);
  return writer;
}

std::vector<ValueId> inputs_of_stage(const Program& program, int stage) {
  const std::vector<NodeId> writer = writers(program);
  std::vector<ValueId> inputs;
  for (const Node& node : program.nodes)
    for (ValueId value : node.reads)
      if (node.stage == stage && writer[value] < 0) add_once(inputs, value);
  return inputs;
}

std::vector<int> stages_of_unit(const Program& program, UnitId unit) {
  std::vector<int> stages;
  for (const Node& node : program.nodes)
    if (contains(node.units, unit)) add_once(stages, node.stage);
  if (!stages.empty()) return stages;
  const UnitId followed = program.units[unit].ema_of;
  return followed < 0 ? std::vector<int>{0} : stages_of_unit(program, followed);
}

std::vector<UnitId> units_of_stage(const Program& program, int stage) {
  std::vector<UnitId> units;
  for (UnitId unit = 0; unit < static_cast<UnitId>(program.units.size()); ++unit)
    if (contains(stages_of_unit(program, unit), stage)) units.push_back(unit);
  return units;
}

std::vector<NodeId> gradient_users(const Program& program, const GradientFlow& flow, UnitId unit,
                                   int stage) {
  std::vector<NodeId> users;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    if (node.stage == stage && flow.node_has_backward[n] && program.units[unit].trainable &&
        contains(node.units, unit))
      users.push_back(static_cast<NodeId>(n));
  }
  return users;
}

bool splits_backward(const Program& program, const GradientFlow& flow, NodeId node) {
  const Node& one = program.nodes[node];
  const bool inputs =
      std::ranges::any_of(one.reads, [&](ValueId value) { return flow.value_has_grad[value]; });
  const bool weights =
      std::ranges::any_of(one.units, [&](UnitId unit) { return program.units[unit].trainable; });
  const bool whole = one.segment >= 0 || std::ranges::any_of(one.parts, [](const Part& part) {
                       return part.recomputed && part.whole;
                     });
  return inputs && weights && one.split && !whole;
}

NodeSeconds with_parts(const Node& node, NodeSeconds seconds) {
  if (node.flops > 0) seconds.input += seconds.forward * recompute_flops(node) / node.flops;
  return seconds;
}

std::vector<NodeSeconds> node_costs(const Program& program, const GradientFlow& flow) {
  const bool measured =
      std::ranges::all_of(program.nodes, [](const Node& node) { return node.seconds.has_value(); });
  std::vector<NodeSeconds> costs;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    NodeSeconds cost = measured ? with_parts(node, *node.seconds)
                                : NodeSeconds{.forward = flops(node, Verb::kForward),
                                              .input = flops(node, Verb::kBackwardInput),
                                              .weight = flops(node, Verb::kBackwardWeight)};
    if (!flow.node_has_backward[n]) {
      cost.input = cost.weight = 0;
    } else if (!splits_backward(program, flow, static_cast<NodeId>(n))) {
      const bool inputs = std::ranges::any_of(
          node.reads, [&](ValueId value) { return flow.value_has_grad[value]; });
      const double recomputed = node.segment >= 0 ? cost.forward : 0;
      const double whole = cost.backward() + recomputed;
      cost.input = inputs ? whole : 0;
      cost.weight = inputs ? 0 : whole;
    }
    costs.push_back(cost);
  }
  return costs;
}

bool is_inner(const Program& program, const std::vector<NodeId>& writer, NodeId reader,
              ValueId value) {
  const int segment = program.nodes[reader].segment;
  const NodeId node = writer[value];
  return segment >= 0 && node >= 0 && program.nodes[node].segment == segment;
}

std::vector<int> remote_readers(const Program& program, ValueId value) {
  const NodeId writer = writers(program)[value];
  std::vector<int> stages;
  if (writer < 0) return stages;
  for (const Node& node : program.nodes)
    if (node.stage != program.nodes[writer].stage && contains(node.reads, value))
      add_once(stages, node.stage);
  return stages;
}

bool gives_gradient(const Program& program, const GradientFlow& flow, ValueId value, int stage) {
  if (!flow.value_has_grad[value]) return false;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    if (node.stage == stage && flow.node_has_backward[n] && contains(node.reads, value))
      return true;
  }
  return false;
}

}  // namespace trireme::plan
