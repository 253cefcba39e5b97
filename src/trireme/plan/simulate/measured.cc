#include "trireme/plan/simulate/measured.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme::simulate {
namespace {

using plan::Instr;
using plan::PlanSet;
using plan::Verb;

void check(const PlanSet& plan, const RankTimes& times) {
  TRIREME_CHECK(static_cast<int>(times.size()) == plan.mesh.world(), "times of {} ranks of {}",
                times.size(), plan.mesh.world());
  for (int rank = 0; rank < plan.mesh.world(); ++rank)
    TRIREME_CHECK(times[rank].size() == plan.list(rank).size(), "rank {} has {} times for {} lines",
                  rank, times[rank].size(), plan.list(rank).size());
}

// The line in which all ranks meet.
const LineTime& norm(const PlanSet& plan, const RankTimes& times, int rank) {
  const auto line = std::ranges::find(plan.list(rank), Verb::kGradNorm, &Instr::verb);
  TRIREME_CHECK(line != plan.list(rank).end(), "rank {} has no grad_norm", rank);
  return times[rank][line - plan.list(rank).begin()];
}

void shift(std::vector<LineTime>& lines, double seconds) {
  for (LineTime& line : lines) {
    line.start += seconds;
    line.end += seconds;
  }
}

// Seconds and how many lines they are of.
struct Mean {
  double sum = 0;
  int count = 0;
  void add(double seconds) {
    sum += seconds;
    ++count;
  }
  double value() const { return count > 0 ? sum / count : 0; }
};

struct NodeMeans {
  Mean forward, backward, input, weight;
};

plan::NodeSeconds seconds(const plan::Node& node, const NodeMeans& means) {
  plan::NodeSeconds result{.forward = means.forward.value(),
                           .input = means.input.value(),
                           .weight = means.weight.value()};
  // The next plan may keep what this one recomputed.
  const double recomputed =
      node.flops > 0 ? result.forward * recompute_flops(node) / node.flops : 0;
  result.input = std::max(0.0, result.input - recomputed);
  if (means.backward.count == 0 || means.input.count > 0) return result;
  const double all = node.backward_flops.value_or(2 * node.flops);
  const double part = all > 0 ? flops(node, Verb::kBackwardWeight) / all : 0;
  const double backward = std::max(0.0, means.backward.value() - recomputed);
  result.weight = part * backward;
  result.input = backward - result.weight;
  return result;
}

}  // namespace

RankTimes on_one_clock(const PlanSet& plan, RankTimes times) {
  check(plan, times);
  const LineTime meeting = norm(plan, times, 0);
  for (int rank = 1; rank < plan.mesh.world(); ++rank) {
    const LineTime mine = norm(plan, times, rank);
    if (mine.start <= meeting.end && meeting.start <= mine.end) continue;
    const double behind = meeting.end - mine.end;
    shift(times[rank], behind);
  }
  double first = meeting.start;
  for (const std::vector<LineTime>& lines : times)
    for (const LineTime& line : lines) first = std::min(first, line.start);
  for (std::vector<LineTime>& lines : times) shift(lines, -first);
  return times;
}

Json node_costs(const PlanSet& plan, const RankTimes& times) {
  check(plan, times);
  std::vector<NodeMeans> means(plan.program.nodes.size());
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    const plan::List& list = plan.list(rank);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!computes(list[i])) continue;
      const LineTime& line = times[rank][i];
      NodeMeans& node = means[list[i].node];
      const double taken = line.end - line.start - line.waited;
      if (list[i].verb == Verb::kForward) node.forward.add(taken);
      if (list[i].verb == Verb::kBackward) node.backward.add(taken);
      if (list[i].verb == Verb::kBackwardInput) node.input.add(taken);
      if (list[i].verb == Verb::kBackwardWeight) node.weight.add(taken);
    }
  }
  Json json;
  json["nodes"] = Json::object();
  for (std::size_t n = 0; n < means.size(); ++n) {
    const plan::Node& node = plan.program.nodes[n];
    const plan::NodeSeconds cost = seconds(node, means[n]);
    json["nodes"][node.name] = {
        {"forward", cost.forward}, {"input", cost.input}, {"weight", cost.weight}};
  }
  return json;
}

}  // namespace trireme::simulate
