#include "trireme/plan/compile/partition.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

constexpr double kSlack = 0.01;  // of the slowest stage's time, given for memory

// Cost of ranges of nodes as a stage.
class Ranges {
 public:
  Ranges(const Program& program, int stages, const Recipe& recipe)
      : program_(program), stages_(stages), recipe_(recipe), flow_(gradient_flow(program)) {
    time_before_.push_back(0);
    saved_before_.push_back(0);
    const std::vector<NodeSeconds> costs = node_costs(program, flow_);
    for (std::size_t n = 0; n < costs.size(); ++n) {
      time_before_.push_back(time_before_.back() + costs[n].forward + costs[n].backward());
      const bool keeps = flow_.node_has_backward[n] && program.nodes[n].segment < 0;
      saved_before_.push_back(saved_before_.back() +
                              (keeps ? static_cast<double>(kept_bytes(program.nodes[n])) : 0));
    }
    join_followers();
    for (int end = 0; end <= nodes(); ++end) {
      std::vector<double>& states = states_.emplace_back(static_cast<std::size_t>(end) + 1);
      std::set<UnitId> units;  // of [begin, end)
      for (int begin = end; begin-- > 0;) {
        states[begin] = states[begin + 1];
        for (UnitId unit : program.nodes[begin].units)
          if (units.insert(unit).second) states[begin] += unit_bytes(program.units[unit]);
      }
    }
  }

  int nodes() const { return static_cast<int>(program_.nodes.size()); }
  // Whether a stage may end before node `end`: units and those that follow them stay together.
  bool may_cut(int end) const { return !joined_[end]; }
  double time(int begin, int end) const { return time_before_[end] - time_before_[begin]; }

  // Of nodes [begin, end) as stage `stage`.
  double memory(int stage, int begin, int end) const {
    const int kept = std::min(recipe_.micro_batches, stages_ - stage);
    return states_[end][begin] + kept * (saved_before_[end] - saved_before_[begin]);
  }

 private:
  // Marks all places between the nodes of a unit and of the one that it follows.
  void join_followers() {
    joined_.assign(program_.nodes.size() + 1, false);
    for (UnitId unit = 0; unit < static_cast<UnitId>(program_.units.size()); ++unit) {
      const UnitId followed = program_.units[unit].ema_of;
      if (followed < 0) continue;
      int first = nodes(), last = 0;
      for (int n = 0; n < nodes(); ++n) {
        const std::vector<UnitId>& units = program_.nodes[n].units;
        if (!contains(units, unit) && !contains(units, followed)) continue;
        first = std::min(first, n);
        last = n;
      }
      for (int n = first + 1; n <= last; ++n) joined_[n] = true;
    }
  }
  double unit_bytes(const Unit& unit) const {
    const auto width = [](DType type) { return static_cast<double>(size_of(type)); };
    double each = width(param_type(recipe_, unit));
    each += static_cast<double>(master_bytes(recipe_, unit));
    if (!unit.trainable) return each * static_cast<double>(unit.numel);
    each += width(recipe_.grads);
    return each * static_cast<double>(unit.numel) +
           static_cast<double>(state_bytes(recipe_, unit, unit.numel));
  }

  const Program& program_;
  int stages_;
  const Recipe& recipe_;
  GradientFlow flow_;
  std::vector<bool> joined_;  // by the node after a place
  std::vector<double> time_before_;
  std::vector<double> saved_before_;
  std::vector<std::vector<double>> states_;  // bytes of the units of [begin, end), by end and begin
};

// Cuts [0, nodes) into `stages` ranges of least total, where two ranges' costs are combined by `join`; an infinite cost
// is not allowed. Empty if no cut is allowed.
template <typename Cost, typename Join>
Cuts best(const Ranges& ranges, int stages, const Cost& cost, const Join& join) {
  const int nodes = ranges.nodes();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto width = static_cast<std::size_t>(nodes) + 1;
  std::vector<std::vector<double>> total(static_cast<std::size_t>(stages) + 1,
                                         std::vector<double>(width, kNever));
  std::vector<std::vector<int>> begin(static_cast<std::size_t>(stages) + 1,
                                      std::vector<int>(width, -1));
  total[0][0] = 0;
  for (int stage = 0; stage < stages; ++stage)
    for (int end = stage + 1; end <= nodes - (stages - stage - 1); ++end) {
      if (!ranges.may_cut(end)) continue;
      for (int from = end; from-- > stage;) {
        if (total[stage][from] == kNever) continue;
        const double here = cost(stage, from, end);
        if (here == kNever) break;  // longer ones are not allowed either
        const double sum = join(total[stage][from], here);
        if (sum >= total[stage + 1][end]) continue;
        total[stage + 1][end] = sum;
        begin[stage + 1][end] = from;
      }
    }
  if (total[stages][nodes] == kNever) return {};
  Cuts cuts(static_cast<std::size_t>(stages));
  for (int stage = stages, end = nodes; stage > 0; --stage) {
    cuts[static_cast<std::size_t>(stage) - 1] = end - begin[stage][end];
    end = begin[stage][end];
  }
  return cuts;
}

// Calls visit(stage, begin, end) for every range.
template <typename Visit>
void for_ranges(const Cuts& cuts, const Visit& visit) {
  int begin = 0;
  for (int stage = 0; stage < static_cast<int>(cuts.size()); ++stage) {
    visit(stage, begin, begin + cuts[stage]);
    begin += cuts[stage];
  }
}

// How slow the slowest rank and stage are.
using Unevenness = std::array<double, 2>;
Unevenness unevenness(const Ranges& ranges, const Pipeline& pipeline, const Cuts& cuts) {
  std::vector<double> ranks(static_cast<std::size_t>(pipeline.ranks));
  Unevenness result{};
  for_ranges(cuts, [&](int stage, int begin, int end) {
    const double time =
        ranges.may_cut(end) ? ranges.time(begin, end) : std::numeric_limits<double>::infinity();
    ranks[pipeline.rank_of(stage)] += time;
    result[1] = std::max(result[1], time);
  });
  result[0] = *std::ranges::max_element(ranks);
  return result;
}

// Moves a node from one stage to another, along those between them, as long as the slowest rank, or else the slowest stage, gets faster.
void even_out(const Ranges& ranges, const Pipeline& pipeline, Cuts& cuts) {
  Unevenness least = unevenness(ranges, pipeline, cuts);
  for (bool moved = true; std::exchange(moved, false);)
    for (std::size_t from = 0; from < cuts.size(); ++from)
      for (std::size_t to = 0; to < cuts.size(); ++to) {
        if (from == to || cuts[from] == 1) continue;
        --cuts[from];
        ++cuts[to];
        const Unevenness next = unevenness(ranges, pipeline, cuts);
        moved = moved || next < least;
        if (next < least) {
          least = next;
        } else {
          ++cuts[from];
          --cuts[to];
        }
      }
}

}  // namespace

Cuts balance(const Program& program, const Pipeline& pipeline, const Recipe& recipe) {
  const int stages = pipeline.stages();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Ranges ranges(program, stages, recipe);
  const int nodes = ranges.nodes();
  if (stages > nodes)
    fail(ErrorKind::kUsage, "{} pipeline stages for the {} nodes of {}; take {} or fewer", stages,
         nodes, program.name, nodes);
  const auto most = [](double a, double b) { return std::max(a, b); };
  const auto sum = [](double a, double b) { return a + b; };
  double slowest = 0, largest = 0;
  const auto time = [&](int, int begin, int end) { return ranges.time(begin, end); };
  const Cuts fastest = best(ranges, stages, time, most);
  if (fastest.empty())
    fail(ErrorKind::kUsage,
         "{} pipeline stages for {}: a unit and its moving average stay on one stage, which leaves "
         "too few places to cut; take fewer",
         stages, program.name);
  for_ranges(fastest, [&](int, int begin, int end) {
    slowest = std::max(slowest, ranges.time(begin, end));
  });
  slowest *= 1 + kSlack;
  const auto memory = [&](int stage, int begin, int end) {
    return ranges.time(begin, end) > slowest ? kNever : ranges.memory(stage, begin, end);
  };
  for_ranges(best(ranges, stages, memory, most), [&](int stage, int begin, int end) {
    largest = std::max(largest, ranges.memory(stage, begin, end));
  });
  const auto square = [&](int stage, int begin, int end) {
    if (memory(stage, begin, end) > largest) return kNever;
    return ranges.time(begin, end) * ranges.time(begin, end);
  };
  Cuts cuts = best(ranges, stages, square, sum);
  if (pipeline.chunks > 1) even_out(ranges, pipeline, cuts);
  return cuts;
}

Program place(Program program, const Cuts& cuts, const Pipeline& pipeline) {
  const auto nodes = std::accumulate(cuts.begin(), cuts.end(), std::int64_t{0});
  if (static_cast<int>(cuts.size()) != pipeline.stages() ||
      std::ranges::any_of(cuts, [](int count) { return count < 1; }) ||
      nodes != static_cast<std::int64_t>(program.nodes.size()))
    fail(
        ErrorKind::kUsage,
        "{} stages of {} nodes together; the pipeline has {} ({} ranks of {} chunks) and {} has {} "
        "nodes, at least one a stage",
        cuts.size(), nodes, pipeline.stages(), pipeline.ranks, pipeline.chunks, program.name,
        program.nodes.size());
  for_ranges(cuts, [&](int stage, int begin, int end) {
    for (int n = begin; n < end; ++n) {
      Node& node = program.nodes[n];
      node.stage = pipeline.rank_of(stage);
      node.chunk = schedules::chunk_of(pipeline.placement, pipeline.ranks, stage);
    }
  });
  return program;
}

}  // namespace trireme::plan
