#include "trireme/plan/simulate/cost.h"

#include <algorithm>

#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"

namespace trireme::simulate {
namespace {

using mesh::Axis;
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

struct Traffic {
  double messages = 0;  // one after the other
  double bytes = 0;     // sent by a rank
};

Traffic ring(double bytes, int ranks, int rounds) {
  return {.messages = static_cast<double>(rounds * (ranks - 1)),
          .bytes = rounds * bytes * (ranks - 1) / ranks};
}

Traffic traffic(const PlanSet& plan, const Instr& line) {
  Traffic sum;
  for (const Exchanged& one : exchanges(plan, line)) {
    const Traffic once =
        one.kind == plan::Exchange::kSendRecv
            ? Traffic{.messages = 1, .bytes = one.bytes}
            : ring(one.bytes, one.ranks, one.kind == plan::Exchange::kAllReduce ? 2 : 1);
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
  return line.node < 0 ? 0 : plan::flops(plan.program.nodes[line.node], line.verb);
}

// In which a line computes: that of its node's first unit.
DType type_of(const PlanSet& plan, const Instr& line) {
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
std::vector<Exchanged> coded_exchanges(const PlanSet& plan, const Instr& line) {
  const plan::CodedReduction reduction = plan::coded_reduction(plan, line.unit);
  const auto bytes = [](std::int64_t count) { return static_cast<double>(count); };
  std::vector<Exchanged> both = {
      {.kind = plan::Exchange::kReduceScatter,
       .axes = line.axes,
       .ranks = reduction.ranks,
       .bytes = bytes(reduction.own() * reduction.code_bytes(reduction.count))}};
  if (!reduction.scatters)
    both.push_back({.kind = plan::Exchange::kAllGather,
                    .axes = line.axes,
                    .ranks = reduction.ranks,
                    .bytes = bytes(reduction.back_bytes(reduction.count))});
  return both;
}

}  // namespace

std::vector<Exchanged> exchanges(const PlanSet& plan, const Instr& line) {
  const double grads = width(plan::reduce_type(plan.recipe));
  const auto over = [&](plan::Exchange kind, double bytes) {
    return std::vector<Exchanged>{
        {.kind = kind, .axes = line.axes, .ranks = plan.mesh.degree(line.axes), .bytes = bytes}};
  };
  const auto reduced = [&](double count) {
    return over(line.scatter ? plan::Exchange::kReduceScatter : plan::Exchange::kAllReduce,
                count * grads);
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
      return over(plan::Exchange::kAllGather,
                  full(plan, line.unit) *
                      width(plan::param_type(plan.recipe, plan.program.units[line.unit])));
    case Verb::kReduceGrads:
      if (line.coded) return coded_exchanges(plan, line);
      if (plan::reduction_of(plan.program, line) == plan::Reduction::kParts)
        return reduced(static_cast<double>(plan.program.units[line.unit].tp_partial));
      // After a reduce-scatter the rest of the axes reduces parts.
      return reduced(line.scatter ? full(plan, line.unit) : part(plan, line.unit));
    case Verb::kSyncTied:
      return {{.kind = plan::Exchange::kAllReduce,
               .axes = Axis::kPp,
               .ranks = static_cast<int>(plan::stages_of_unit(plan.program, line.unit).size()),
               .bytes = part(plan, line.unit) * grads}};
    case Verb::kSend:
      return {{.kind = plan::Exchange::kSendRecv,
               .axes = Axis::kPp,
               .ranks = 2,
               .bytes = static_cast<double>(plan.program.values[line.value].bytes)}};
    case Verb::kReload:
      if (line.axes.empty()) return {};
      return over(plan::Exchange::kAllGather,
                  static_cast<double>(plan.program.values[line.value].bytes));
    case Verb::kGradNorm:
      return {
          {.kind = plan::Exchange::kAllGather, .axes = mesh::kWorld, .ranks = plan.mesh.world()}};
    default: return {};
  }
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
    case Verb::kStep: {
      const plan::Unit& unit = program.units[line.unit];
      const double count = part(plan, line.unit);
      const auto states = static_cast<double>(
          plan::state_bytes(plan.recipe, unit, static_cast<std::int64_t>(count)));
      return count * (2 * width(plan.recipe.master) + width(plan.recipe.grads)) + 2 * states;
    }
    case Verb::kReduceGrads: {
      if (!line.coded) return 0;
      // Sums are coded, and slices of all senders decoded and added.
      const plan::CodedReduction reduction = plan::coded_reduction(plan, line.unit);
      const std::int64_t coded = reduction.own() * reduction.count;
      const std::int64_t decoded = reduction.sums.senders * reduction.slices().front();
      return static_cast<double>((coded + 2 * decoded) * static_cast<std::int64_t>(sizeof(float)) +
                                 reduction.buffers(0));
    }
    case Verb::kEma: return part(plan, line.unit) * 3 * width(plan.recipe.master);
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
