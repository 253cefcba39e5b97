#include <algorithm>
#include <map>
#include <tuple>

#include "trireme/plan/compile/placement.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

std::vector<Retirement> retirements(const Program& program, std::span<const Instr> list) {
  using OfMicroBatch = std::pair<int, int>;  // a value, of a micro-batch
  std::map<OfMicroBatch, std::size_t>
      last_touch;  // a value without readers is dropped where it appears
  std::map<OfMicroBatch, std::size_t>
      last_inner;  // the last recompute that reads what its segment writes
  const std::vector<NodeId> writer = writers(program);
  int count = 0;  // micro-batches
  for (const Instr& line : list) count = std::max(count, line.mb + 1);
  using Gradient = std::tuple<UnitId, int, int>;  // unit, chunk, micro-batch
  std::map<Gradient, std::size_t> first_backward, last_backward;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Instr& line = list[i];
    if (line.verb == Verb::kForward || line.verb == Verb::kRecompute) {
      const Node& node = program.nodes[line.node];
      for (ValueId value : node.reads) {
        const bool inner =
            line.verb == Verb::kRecompute && is_inner(program, writer, line.node, value);
        for (int mb : batches(node, line.mb, count))
          (inner ? last_inner : last_touch)[{value, mb}] = i;
      }
      if (line.verb == Verb::kForward)
        for (ValueId value : node.writes) last_touch[{value, line.mb}] = i;
    } else if ((line.verb == Verb::kSend || line.verb == Verb::kRecv) && !line.gradient) {
      last_touch[{line.value, line.mb}] = i;
    } else if (adds_gradients(line)) {
      for (UnitId unit : program.nodes[line.node].units)
        if (program.units[unit].trainable) {
          const Gradient gradient{unit, program.nodes[line.node].chunk, line.mb};
          first_backward.try_emplace(gradient, i);
          last_backward[gradient] = i;
        }
    }
  }
  std::vector<Retirement> result(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].verb != Verb::kRecompute) continue;
    for (ValueId value : program.nodes[list[i].node].writes) {
      const auto inner = last_inner.find({value, list[i].mb});
      if (inner == last_inner.end() || inner->second < i) continue;
      std::size_t& last = last_touch[inner->first];
      if (last > i) {  // somebody else still needs it
        last = std::max(last, inner->second);
        continue;
      }
      result[i].writes.push_back(value);
      result[inner->second].values.push_back(inner->first);
    }
  }
  for (const auto& [of_mb, line] : last_touch) result[line].values.push_back(of_mb);
  for (const auto& [of_mb, line] : first_backward) result[line].opens.push_back(std::get<0>(of_mb));
  for (const auto& [of_mb, line] : last_backward)
    result[line].gradients.push_back(std::get<0>(of_mb));
  return result;
}

int kept_forwards(std::span<const Instr> list) {
  int kept = 0, most = 0;
  for (const Instr& line : list) {
    kept += line.keep || line.verb == Verb::kRecompute;
    most = std::max(most, kept);
    kept -= adds_gradients(line);
  }
  return most;
}

}  // namespace trireme::plan
