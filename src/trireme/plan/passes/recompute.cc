#include "trireme/plan/passes/recompute.h"

namespace trireme::plan {

List recompute(const Stage& stage, List list) {
  if (!stage.recipe.recompute) return list;
  List result;
  for (Instr& line : list) {
    const bool again =
        computes(line) && stage.has_backward(line.node) && !stage.node(line.node).loss;
    if (again && line.verb == Verb::kForward) line.keep = false;
    if (again && (line.verb == Verb::kBackward || line.verb == Verb::kBackwardInput))
      result.push_back({.verb = Verb::kRecompute, .node = line.node, .mb = line.mb});
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace trireme::plan
