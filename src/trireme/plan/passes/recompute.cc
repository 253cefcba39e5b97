#include "trireme/plan/passes/recompute.h"

#include <map>
#include <set>
#include <utility>

namespace trireme::plan {

List recompute(const Stage& stage, List list) {
  std::map<int, std::vector<NodeId>> segments;
  for (NodeId node = 0; node < stage.node_count(); ++node)
    if (stage.runs(node) && stage.has_backward(node) && stage.node(node).segment >= 0)
      segments[stage.node(node).segment].push_back(node);
  std::set<std::pair<int, int>> done;  // segment, micro-batch
  List result;
  for (Instr& line : list) {
    const int segment =
        computes(line) && stage.has_backward(line.node) ? stage.node(line.node).segment : -1;
    if (segment >= 0 && line.verb == Verb::kForward) line.keep = false;
    if (segment >= 0 && line.verb != Verb::kForward && done.insert({segment, line.mb}).second)
      for (NodeId node : segments[segment])
        result.push_back({.verb = Verb::kRecompute, .node = node, .mb = line.mb});
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace trireme::plan
