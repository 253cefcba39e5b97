#include "trireme/plan/simulate/cost.h"

#include <algorithm>

#include "trireme/plan/coded_gather.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/low_rank.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/simulate/update_cost.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"

namespace trireme::simulate {
namespace {

using mesh::Axis;
using plan::Exchange;
using plan::Instr;
using plan::PlanSet;
using plan::Verb;

double width(DType type) { return static_cast<double>(size_of(type)); }

// Elements of the unit that a rank steps, and of its full buffer.
double part(const PlanSet& plan, plan::UnitId unit) {
  return static_cast<double>(plan::share_of(plan, unit).part);
}
double full(const PlanSet& plan, plan::UnitId unit) {
  return static_cast<double>(plan::share_of(plan, unit).full);
}

using algorithm::Traffic;

Traffic traffic_of(algorithm::Kind kind, const Exchanged& one) {
  switch (one.kind) {
    case Exchange::kSendRecv: return {.messages = 1, .bytes = one.bytes};
    case Exchange::kAllReduce: return algorithm::all_reduce(kind, one.ranks, one.bytes);
    case Exchange::kReduceScatter: return algorithm::reduce_scatter(kind, one.ranks, one.bytes);
    default: return algorithm::all_gather(kind, one.ranks, one.bytes);
  }
}

bool adds_on_way(const PlanSet& plan, const Instr& line) {
  return line.coded && line.verb == Verb::kReduceGrads &&
         plan::coded_reduction(plan, line.unit).adds_on_way;
}

bool at_low_rank(const PlanSet& plan, const Instr& line) {
  return line.verb == Verb::kReduceGrads && line.coded && plan::sums_at_low_rank(plan.recipe);
}

Traffic traffic(const PlanSet& plan, const Instr& line) {
  const bool of_units = line.verb == Verb::kUnshard || line.verb == Verb::kReduceGrads;
  const bool sums = of_units && (!line.coded || adds_on_way(plan, line) || at_low_rank(plan, line));
  const auto kind = sums ? plan.recipe.algorithm : algorithm::Kind::kAuto;
  Traffic sum;
  for (const Exchanged& one : exchanges(plan, line)) {
    const Traffic once = traffic_of(kind, one);
    sum.messages += one.times * once.messages;
    sum.bytes += one.times * once.bytes;
  }
  return sum;
}

// Bytes a second between memory and where the line's subject waits.
double away_rate(const CostModel& model, const PlanSet& plan, const Instr& line) {
  const plan::Offload& offload = plan.recipe.offload;
  const plan::Tier tier =
      line.value >= 0 ? offload.activations : plan::tier_of(offload, line.tensors);
  return tier == plan::Tier::kNvme ? model.disk_bytes_per_s : model.host_bytes_per_s;
}

double flops(const PlanSet& plan, const Instr& line) {
  if (line.verb == Verb::kUpdateMatrices) return matrix_flops(plan, line.unit);
  return line.node < 0 ? 0 : plan::flops(plan.program.nodes[line.node], line.verb);
}

// In which a line computes: that of its node's first unit.
DType type_of(const PlanSet& plan, const Instr& line) {
  if (line.verb == Verb::kUpdateMatrices) return plan.recipe.master;
  if (line.node < 0 || plan.program.nodes[line.node].units.empty()) return plan.recipe.compute;
  return plan::param_type(plan.recipe,
                          plan.program.units[plan.program.nodes[line.node].units.front()]);
}

double measured(const plan::NodeSeconds& seconds, Verb verb) {
  switch (verb) {
    case Verb::kBackward: return seconds.backward();
    case Verb::kBackwardInput: return seconds.input;
    case Verb::kBackwardWeight: return seconds.weight;
    default: return seconds.forward;
  }
}

// Codes of slices to their ranks, then results to all.
std::vector<Exchanged> coded_exchanges(const PlanSet& plan, const plan::CodedReduction& reduction,
                                       const Instr& line) {
  const auto bytes = [](std::int64_t count) { return static_cast<double>(count); };
  if (line.within > 0)  // neighbours add columns first, and the ranks of a place exchange codes
    return {{.kind = Exchange::kReduceScatter,
             .axes = Axis::kDpShard,
             .ranks = line.within,
             .bytes = full(plan, line.unit) * width(plan.recipe.grads),
             .within = line.within},
            {.kind = Exchange::kReduceScatter,
             .axes = Axis::kDpReplicate,
             .ranks = reduction.ranks,
             .bytes = bytes(reduction.code_bytes(reduction.count)),
             .apart = true,
             .within = line.within}};
  std::vector<Exchanged> all;
  const auto add = [&](Exchange kind, std::int64_t count, bool apart) {
    all.push_back({.kind = kind,
                   .axes = line.axes,
                   .ranks = reduction.ranks,
                   .bytes = bytes(count),
                   .apart = apart});
  };
  if (reduction.integers()) add(Exchange::kAllReduce, reduction.exponents(), false);
  const std::int64_t sent = reduction.sent_bytes(reduction.count);
  if (reduction.adds_on_way && reduction.returns_integers()) {
    add(Exchange::kAllReduce, sent, false);
    return all;
  }
  add(Exchange::kReduceScatter, sent, line.coded && !reduction.adds_on_way);
  if (!reduction.scatters) add(Exchange::kAllGather, reduction.back_bytes(reduction.count), false);
  return all;
}

// What is dense with P, unless it is scattered, and then Q. Ranks that share a sender's sum send shards of matrices to
// their owners before, and gather all factors after; each number is the mean of these ranks.
std::vector<Exchanged> low_rank_exchanges(const PlanSet& plan, const Instr& line) {
  const plan::LowRank low = plan::low_rank(plan, line.unit);
  const auto owners = static_cast<int>(low.owners.size());
  const int ranks = low.reduction.ranks;
  std::int64_t dense = 0, left = 0, right = 0, moved = 0;
  for (int place = 0; place < owners; ++place) {
    dense += low.dense_sent(place);
    left += low.owners[place].left;
    right += low.owners[place].right;
    for (int to = 0; to < owners; ++to) moved += to == place ? 0 : low.moved(place, to);
  }
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<double>(elements) * width(DType::kF32) / owners;
  };
  const auto sum = [&](std::int64_t elements, Exchange kind) {
    return Exchanged{.kind = kind, .axes = line.axes, .ranks = ranks, .bytes = bytes(elements)};
  };
  std::vector<Exchanged> all;
  if (dense > 0 && low.reduction.scatters) all.push_back(sum(dense, Exchange::kReduceScatter));
  all.push_back(sum(left + (low.reduction.scatters ? 0 : dense), Exchange::kAllReduce));
  all.push_back(sum(right, Exchange::kAllReduce));
  if (!low.distributed()) return all;
  all.push_back({.kind = Exchange::kSendRecv,
                 .axes = Axis::kDpShard,
                 .ranks = owners,
                 .bytes = bytes(moved) / (owners - 1),
                 .times = owners - 1.0});
  all.push_back({.kind = Exchange::kAllGather,
                 .axes = Axis::kDpShard,
                 .ranks = owners,
                 .bytes = bytes(low.factors * owners)});
  return all;
}

Exchanged gathered(const PlanSet& plan, const Instr& line) {
  const plan::GatheredCodes codes = plan::gathered_codes(plan, line.unit);
  return {.kind = Exchange::kAllGather,
          .axes = line.within > 0 ? mesh::AxisSet(Axis::kDpShard) : line.axes,
          .ranks = line.within > 0 ? line.within : codes.shards,
          .bytes = static_cast<double>(codes.bytes()),
          .within = line.within};
}

std::vector<Exchanged> merge_exchanges(const PlanSet& plan, const Instr& line) {
  if (const auto coded = plan::coded_merge(plan, line.unit))
    return coded_exchanges(plan, *coded, line);
  return {{.kind = Exchange::kAllReduce,
           .axes = line.axes,
           .ranks = plan.mesh.degree(line.axes),
           .bytes = part(plan, line.unit) * width(plan.recipe.master)}};
}

// Of a reduction of codes; others are as fast as their links.
double moved_by_reduction(const PlanSet& plan, int rank, const Instr& line) {
  if (!line.coded) return 0;
  const plan::CodedReduction reduction = plan::coded_reduction(plan, line.unit);
  if (at_low_rank(plan, line)) {
    // Sums are read three times and residuals once; both are written, and the result.
    const auto held = static_cast<double>(plan::residual_elements(plan, rank, line.unit));
    return (6 * reduction.own() * held + part(plan, line.unit)) * width(DType::kF32);
  }
  // Sums are coded, and slices of all senders decoded and added.
  const std::int64_t coded = reduction.own() * reduction.count;
  return static_cast<double>((coded + 2 * reduction.decoded()) *
                                 static_cast<std::int64_t>(sizeof(float)) +
                             reduction.buffers(0));
}

}  // namespace

std::vector<Exchanged> exchanges(const PlanSet& plan, const Instr& line) {
  const double grads = width(plan::reduce_type(plan.recipe));
  const auto over = [&](Exchange kind, double bytes) {
    return std::vector<Exchanged>{
        {.kind = kind, .axes = line.axes, .ranks = plan.mesh.degree(line.axes), .bytes = bytes}};
  };
  const auto reduced = [&](double count) {
    return over(line.scatter ? Exchange::kReduceScatter : Exchange::kAllReduce, count * grads);
  };
  switch (line.verb) {
    case Verb::kForward:
    case Verb::kRecompute:
    case Verb::kBackward:
    case Verb::kBackwardInput:
    case Verb::kBackwardWeight: {
      std::vector<Exchanged> inside;
      const plan::Node& node = plan.program.nodes[line.node];
      for (const plan::NodeExchange& one : node.exchanges)
        if (const int times = plan::times(node, one, line.verb); times > 0)
          inside.push_back({.kind = one.kind,
                            .axes = one.axes,
                            .ranks = plan.mesh.degree(one.axes),
                            .bytes = static_cast<double>(one.bytes),
                            .times = static_cast<double>(times)});
      return inside;
    }
    case Verb::kUnshard:
      if (line.coded) return {gathered(plan, line)};
      return over(Exchange::kAllGather,
                  full(plan, line.unit) *
                      width(plan::param_type(plan.recipe, plan.program.units[line.unit])));
    case Verb::kReduceGrads:
      if (at_low_rank(plan, line)) return low_rank_exchanges(plan, line);
      if (line.coded) return coded_exchanges(plan, plan::coded_reduction(plan, line.unit), line);
      if (plan::reduction_of(plan.program, line) == plan::Reduction::kParts)
        return reduced(static_cast<double>(plan.program.units[line.unit].tp_partial));
      // After a reduce-scatter the rest of the axes reduces parts.
      return reduced(line.scatter ? full(plan, line.unit) : part(plan, line.unit));
    case Verb::kSyncTied:
      return {{.kind = Exchange::kAllReduce,
               .axes = Axis::kPp,
               .ranks = static_cast<int>(plan::stages_of_unit(plan.program, line.unit).size()),
               .bytes = part(plan, line.unit) * grads}};
    case Verb::kSend:
      return {{.kind = Exchange::kSendRecv,
               .axes = Axis::kPp,
               .ranks = 2,
               .bytes = static_cast<double>(plan.program.values[line.value].bytes)}};
    case Verb::kOuterReduce: return merge_exchanges(plan, line);
    case Verb::kExchangeUpdate: return update_exchanges(plan, line);
    case Verb::kReload:
      if (line.axes.empty()) return {};
      return over(Exchange::kAllGather, static_cast<double>(plan.program.values[line.value].bytes));
    case Verb::kGradNorm:
      return {{.kind = Exchange::kAllGather, .axes = mesh::kWorld, .ranks = plan.mesh.world()}};
    default: return {};
  }
}

double crossing_bytes(const PlanSet& plan, int rank, int ranks) {
  double sum = 0;
  for (const Instr& line : plan.list(rank)) {
    if (line.unit < 0 || line.axes.empty()) continue;
    for (const Exchanged& one : exchanges(plan, line)) {
      const mesh::Mesh mesh = one.within > 0 ? plan::in_blocks(plan.mesh, one.within) : plan.mesh;
      const std::vector<int> group = mesh.group(rank, one.axes);
      const auto here = static_cast<double>(
          std::ranges::count_if(group, [&](int other) { return other / ranks == rank / ranks; }));
      const auto all = static_cast<double>(group.size());
      const double rounds = one.kind == Exchange::kAllReduce ? 2 : 1;
      const double copies = one.apart ? here : 1;
      sum += ranks / here * copies * rounds * one.times * one.bytes * (all - here) / all;
    }
  }
  return sum;
}

double moved_bytes(const PlanSet& plan, int rank, const Instr& line) {
  const plan::Program& program = plan.program;
  const auto sum = [&](const std::vector<plan::ValueId>& values) {
    double bytes = 0;
    for (plan::ValueId value : values) bytes += static_cast<double>(program.values[value].bytes);
    return bytes;
  };
  switch (line.verb) {
    case Verb::kLoad:
      return sum(plan::inputs_of_stage(program, plan.mesh.coordinate(rank, Axis::kPp)));
    case Verb::kForward:
    case Verb::kRecompute:
    case Verb::kBackward:
    case Verb::kBackwardInput: {
      const plan::Node& node = program.nodes[line.node];
      const double once =
          sum(node.reads) + sum(node.writes) + static_cast<double>(kept_bytes(node));
      const bool back = line.verb == Verb::kBackward || line.verb == Verb::kBackwardInput;
      return back ? 2 * once : once;
    }
    case Verb::kBackwardWeight:
      return static_cast<double>(program.nodes[line.node].split->kept_bytes);
    case Verb::kGradNorm: {
      double bytes = 0;
      for (plan::UnitId unit : plan::units_of_stage(program, plan.mesh.coordinate(rank, Axis::kPp)))
        if (program.units[unit].trainable) bytes += part(plan, unit) * width(plan.recipe.grads);
      return bytes;
    }
    case Verb::kExchangeUpdate:
    case Verb::kUpdateMatrices: return moved_by_direction(plan, line);
    case Verb::kStep: {
      const plan::Unit& unit = program.units[line.unit];
      const double count = part(plan, line.unit);
      if (unit.by_matrix) return count * 3 * width(plan.recipe.master);
      const auto states = static_cast<double>(
          plan::state_bytes(plan.recipe, unit, static_cast<std::int64_t>(count)));
      return count * (2 * width(plan.recipe.master) + width(plan.recipe.grads)) + 2 * states;
    }
    case Verb::kUnshard: {
      if (!line.coded) return 0;
      // Codes of this rank's masters, unless they rest, and parameters of all codes.
      const plan::GatheredCodes codes = plan::gathered_codes(plan, line.unit);
      const double coded = codes.rests ? 0 : part(plan, line.unit) * width(DType::kF32);
      return coded + static_cast<double>(codes.bytes()) +
             full(plan, line.unit) * width(plan::param_type(plan.recipe, program.units[line.unit]));
    }
    case Verb::kReduceGrads: return moved_by_reduction(plan, rank, line);
    case Verb::kEma: return part(plan, line.unit) * 3 * width(plan.recipe.master);
    // Reads outer weights and weights, writes their difference; then reads that, and changes velocity and both weights.
    case Verb::kOuterReduce: return part(plan, line.unit) * 3 * width(plan.recipe.master);
    case Verb::kOuterStep: return part(plan, line.unit) * 6 * width(plan.recipe.master);
    default: return 0;
  }
}

double CostModel::flops(DType compute) const {
  if (compute == DType::kF64) return fp64_flops;
  return compute == DType::kF32 ? fp32_flops : half_flops;
}

LineSeconds seconds(const CostModel& model, const PlanSet& plan, int rank, const Instr& line) {
  if ((line.verb == Verb::kReload || line.verb == Verb::kOffload) && line.axes.empty())
    return static_cast<double>(
               plan::transit_bytes(plan, plan.mesh.coordinate(rank, Axis::kPp), line)) /
           away_rate(model, plan, line);
  const Traffic wire = traffic(plan, line);
  if (plan::is_transfer(line))
    return {wire.bytes / model.link_bytes_per_s, wire.messages * model.link_latency_s};
  const double exchanging =
      wire.messages * model.link_latency_s + wire.bytes / model.link_bytes_per_s;
  if (line.node >= 0 && plan.program.nodes[line.node].seconds) {
    const plan::Node& node = plan.program.nodes[line.node];
    return measured(plan::with_parts(node, *node.seconds), line.verb) + exchanging;
  }
  const double host = line.node >= 0 ? model.line_s : 0;
  return host + flops(plan, line) / model.flops(type_of(plan, line)) +
         moved_bytes(plan, rank, line) / model.memory_bytes_per_s + exchanging;
}

double sent_bytes(const PlanSet& plan, const Instr& line) { return traffic(plan, line).bytes; }

}  // namespace trireme::simulate
