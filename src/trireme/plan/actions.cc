#include "trireme/plan/actions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "trireme/plan/compile/placement.h"

namespace trireme::plan {
namespace {

using schedules::Action;
using schedules::Work;

class Reading {
 public:
  Reading(const Program& program, const List& list) : program_(program), list_(list) {}

  std::vector<ActionLines> run() && {
    for (int i = 0; i < static_cast<int>(list_.size()); ++i)
      if (const Instr& line = list_[i]; computes(line)) add(line, i);
    return std::move(all_);
  }

 private:
  const Node& node(const Instr& line) const { return program_.nodes[line.node]; }

  void add(const Instr& line, int index) {
    if (node(line).joint && !all_.empty()) {  // belongs to what it follows
      all_.back().last = index;
      return;
    }
    const Action action{.work = line.verb == Verb::kForward ? Work::kForward : Work::kBackward,
                        .chunk = node(line).chunk,
                        .mb = line.mb};
    if (goes_on(line, action)) {
      all_.back().last = index;
    } else {
      all_.push_back({.action = action, .first = index, .last = index});
      second_half(action);
    }
    Work& work = all_.back().action.work;
    if (line.verb == Verb::kBackwardInput) work = Work::kBackwardInput;
    if (line.verb == Verb::kBackwardWeight) work = Work::kBackwardWeight;
  }

  // A backward runs through the nodes of its chunk from the last one on, except that segments are recomputed from their
  // first node on. A later node begins the other part.
  bool goes_on(const Instr& line, const Action& action) const {
    if (all_.empty()) return false;
    const Action& before = all_.back().action;
    if (before.chunk != action.chunk || before.mb != action.mb ||
        (before.work == Work::kForward) != (action.work == Work::kForward))
      return false;
    const Instr& previous = list_[all_.back().last];
    return action.work == Work::kForward || line.node < previous.node ||
           (previous.verb == Verb::kRecompute && node(previous).segment == node(line).segment);
  }

  // The second action of a backward is its weight half, whatever verbs it consists of.
  void second_half(const Action& action) {
    if (action.work == Work::kForward) return;
    const auto [first, fresh] = backwards_.insert({{action.chunk, action.mb}, all_.size() - 1});
    if (fresh) return;
    all_[first->second].action.work = Work::kBackwardInput;
    all_.back().action.work = Work::kBackwardWeight;
  }

  const Program& program_;
  const List& list_;
  std::vector<ActionLines> all_;
  std::map<std::pair<int, int>, std::size_t> backwards_;  // (chunk, mb): its first action
};

}  // namespace

std::vector<ActionLines> actions(const Program& program, const List& list) {
  return Reading(program, list).run();
}

schedules::Grid grid_of(const PlanSet& plan) {
  const int stages = plan.mesh.degree(mesh::Axis::kPp);
  schedules::Grid grid{.chunks = chunk_count(plan.program),
                       .micro_batches = plan.recipe.micro_batches};
  for (const Node& node : plan.program.nodes)
    if (node.chunk == 1 && grid.chunks == 2) {
      if (node.stage == stages - 1 && stages > 1) grid.placement = schedules::Placement::kV;
      break;
    }
  mesh::Coordinates at;
  for (int stage = 0; stage < stages; ++stage) {
    at.at(mesh::Axis::kPp) = stage;
    grid.rows.emplace_back();
    for (const ActionLines& one : actions(plan.program, plan.list(plan.mesh.rank(at))))
      grid.rows.back().push_back(one.action);
  }
  return grid;
}

std::string action_text(const schedules::Grid& grid, int rank, const Action& action) {
  if (grid.chunks > 1) return schedules::text(grid, rank, action);
  return schedules::letter(action.work) + std::to_string(action.mb);
}

std::vector<double> peak_activations(const PlanSet& plan) {
  const int chunks = chunk_count(plan.program);
  std::vector<double> peaks;
  for (const List& list : plan.lists) {
    std::map<std::pair<int, int>, int> keeping;  // (chunk, micro-batch): nodes that keep
    std::size_t peak = 0;
    for (const Instr& line : list) {
      if (!computes(line)) continue;
      const Node& node = plan.program.nodes[line.node];
      const std::pair of_mb{node.chunk, line.mb};
      if (line.keep || line.verb == Verb::kRecompute) ++keeping[of_mb];
      peak = std::max(peak, keeping.size());
      if (adds_gradients(line) && --keeping[of_mb] == 0) keeping.erase(of_mb);
    }
    peaks.push_back(static_cast<double>(peak) / chunks);
  }
  return peaks;
}

}  // namespace trireme::plan
