#include "trireme/plan/compile/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace trireme::plan {
namespace {

Node& at(Program& program, NodeId node) { return program.nodes[node]; }

int next_segment(const Program& program) {
  int next = 0;
  for (const Node& node : program.nodes) next = std::max(next, node.segment + 1);
  return next;
}

// Neighbouring recomputed nodes of a chunk.
std::vector<std::vector<NodeId>> stretches(const Program& program) {
  const GradientFlow flow = gradient_flow(program);
  std::vector<std::vector<NodeId>> all;
  const Node* previous = nullptr;  // that has a backward
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    if (!flow.node_has_backward[n]) continue;
    const bool goes_on = previous != nullptr && previous->segment >= 0 &&
                         previous->stage == node.stage && previous->chunk == node.chunk;
    previous = &node;
    if (node.segment < 0) continue;
    if (!goes_on) all.emplace_back();
    all.back().push_back(static_cast<NodeId>(n));
  }
  return all;
}

}  // namespace

std::vector<NodeId> recomputable(const Program& program) {
  const GradientFlow flow = gradient_flow(program);
  std::vector<NodeId> nodes;
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    if (flow.node_has_backward[n] && !program.nodes[n].loss)
      nodes.push_back(static_cast<NodeId>(n));
  return nodes;
}

void recompute_each(Program& program, const std::vector<NodeId>& nodes) {
  int next = next_segment(program);
  for (NodeId node : nodes)
    if (at(program, node).segment < 0) at(program, node).segment = next++;
}

void join_segments(Program& program, int every) {
  int next = 0;
  for (const std::vector<NodeId>& nodes : stretches(program)) {
    const auto size = static_cast<std::size_t>(every);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      at(program, nodes[i]).segment = next + static_cast<int>(i / size);
    next += static_cast<int>((nodes.size() + size - 1) / size);
  }
}

bool pays_to_recompute(const Node& node) { return node.saved_bytes > 0 && node.flops > 0; }

std::vector<std::string> parts_to_leave_out(const Program& program,
                                            const std::vector<NodeId>& nodes) {
  const GradientFlow flow = gradient_flow(program);
  std::set<std::string> names;
  for (NodeId node : nodes)
    if (flow.node_has_backward[node])
      for (const Part& part : program.nodes[node].parts)
        if (part.saved_bytes > 0) names.insert(part.name);
  return {names.begin(), names.end()};
}

int recompute_part(Program& program, const std::vector<NodeId>& nodes, std::string_view part) {
  const GradientFlow flow = gradient_flow(program);
  int count = 0;
  for (NodeId node : nodes) {
    if (!flow.node_has_backward[node]) continue;
    std::vector<Part>& parts = at(program, node).parts;
    const auto found = std::ranges::find(parts, part, &Part::name);
    if (found == parts.end() || found->saved_bytes == 0 || at(program, node).segment >= 0) continue;
    found->recomputed = true;
    ++count;
  }
  return count;
}

std::string recomputation_text(const Program& program) {
  std::set<int> segments;
  std::vector<std::pair<std::string, int>> parts;  // in the order in which they appear
  int whole = 0;
  for (const Node& node : program.nodes) {
    if (node.segment >= 0) segments.insert(node.segment);
    whole += node.segment >= 0;
    for (const Part& part : node.parts) {
      if (!part.recomputed) continue;
      const auto found = std::ranges::find(parts, part.name, &std::pair<std::string, int>::first);
      if (found == parts.end())
        parts.emplace_back(part.name, 1);
      else
        ++found->second;
    }
  }
  std::string text;
  if (whole > 0) {
    text = fmt::format("{} of {} nodes whole", whole, program.nodes.size());
    if (static_cast<int>(segments.size()) < whole)
      text += fmt::format(" in {} segments", segments.size());
  }
  for (const auto& [name, count] : parts)
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", name, count);
  return text;
}

}  // namespace trireme::plan
