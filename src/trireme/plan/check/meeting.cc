#include "trireme/plan/check/meeting.h"

#include <algorithm>
#include <type_traits>

#include "trireme/plan/compile/placement.h"
#include "trireme/plan/text/instr_fields.h"

namespace trireme::plan {

using mesh::Axis;
using mesh::AxisSet;

bool meets(const Instr& line, int stage, const Instr& theirs, int their_stage) {
  const bool transfer = is_transfer(line);
  if (transfer && (!is_transfer(theirs) || theirs.verb == line.verb || line.peer != their_stage ||
                   theirs.peer != stage))
    return false;
  bool equal = true;
  for_each_field([&](std::string_view, auto field) {
    if constexpr (std::is_same_v<decltype(field), Verb Instr::*>) {
      equal = equal && (transfer || line.verb == theirs.verb);
    } else if constexpr (std::is_same_v<decltype(field), int Instr::*>) {
      const bool mirrored = transfer && field == &Instr::peer;
      equal = equal && (mirrored || line.*field == theirs.*field);
    } else if constexpr (!std::is_same_v<decltype(field), std::vector<int> Instr::*>) {
      equal = equal && line.*field == theirs.*field;
    }
  });
  return equal;
}

AxisSet meeting_axes(const Program& program, const Instr& line) {
  if (line.verb == Verb::kGradNorm) return mesh::kWorld;
  if (!computes(line)) return line.lane == Lane::kComp ? AxisSet() : line.axes;
  const Node& node = program.nodes[line.node];
  AxisSet axes;
  for (const NodeExchange& exchange : node.exchanges)
    if (times(node, exchange, line.verb) > 0) axes = axes | exchange.axes;
  return axes;
}

Meetings::Meetings(const PlanSet& plan, std::vector<int> walker_of_rank)
    : plan_(plan), walkers_(std::move(walker_of_rank)) {
  for (int rank = static_cast<int>(walkers_.size()); rank-- > 0;) {
    const auto walker = static_cast<std::size_t>(walkers_[rank]);
    if (ranks_.size() <= walker) ranks_.resize(walker + 1);
    ranks_[walker] = rank;
  }
  groups_.resize(ranks_.size());
  for (UnitId unit = 0; unit < static_cast<UnitId>(plan.program.units.size()); ++unit)
    stages_of_unit_.push_back(stages_of_unit(plan.program, unit));
}

int Meetings::peer_of(int walker, int stage) const {
  return walkers_[plan_.mesh.peer(rank_of(walker), Axis::kPp, stage)];
}

std::vector<int> Meetings::participants(int walker, const Instr& line) {
  if (is_transfer(line)) {
    const int peer = peer_of(walker, line.peer);
    return {std::min(walker, peer), std::max(walker, peer)};
  }
  const AxisSet axes = meeting_axes(plan_.program, line);
  if (axes.empty()) return {walker};
  const std::vector<int>& all = group(walker, axes);
  if (line.unit < 0) return all;
  const std::vector<int>& stages = stages_of_unit_[line.unit];
  std::vector<int> holding;
  for (int other : all)
    if (std::ranges::binary_search(stages, plan_.mesh.coordinate(rank_of(other), Axis::kPp)))
      holding.push_back(other);
  return holding;
}

// Walkers of the ranks that share the axes with the walker's, ascending.
const std::vector<int>& Meetings::group(int walker, AxisSet axes) {
  auto& known = groups_[walker];
  for (const auto& [over, members] : known)
    if (over == axes) return members;
  std::vector<int> members;
  for (int rank : plan_.mesh.group(rank_of(walker), axes)) members.push_back(walkers_[rank]);
  std::ranges::sort(members);
  members.erase(std::ranges::unique(members).begin(), members.end());
  return known.emplace_back(axes, std::move(members)).second;
}

}  // namespace trireme::plan
