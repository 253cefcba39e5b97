#include "trireme/planner/cost/pricing.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/model/account/parts.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"
#include "trireme/planner/cost/stage_time.h"

namespace trireme::planner {
namespace {

using plan::Verb;

NodeCost priced(const Gpu& gpu, const Practice& practice, const NodeKernels& kernels) {
  const auto timed = [&](const std::vector<Kernel>& list) {
    return seconds(gpu, list) +
           (practice.blocks_launches ? count(list) * gpu.efficiency.blocked_s : 0);
  };
  NodeCost cost{.forward = timed(kernels.forward),
                .input = timed(kernels.input),
                .weight = timed(kernels.weight),
                .last = timed(kernels.last),
                .attention_input = timed(kernels.attention_input)};
  for (const auto& [name, part] : kernels.parts) cost.parts.emplace(name, timed(part));
  if (const auto part = cost.parts.find(model::kAttention); part != cost.parts.end())
    cost.attention = part->second;
  return cost;
}

// The mesh in which so many neighbouring cp ranks are a group, and their groups data-parallel.
mesh::Mesh neighbours(const mesh::Mesh& mesh, int inner) {
  const auto degree = [&](mesh::Axis axis) { return mesh.degree(axis); };
  return mesh::Mesh({.pp = degree(mesh::Axis::kPp),
                     .dp_replicate = degree(mesh::Axis::kDpReplicate),
                     .dp_shard = degree(mesh::Axis::kDpShard) * degree(mesh::Axis::kCp) / inner,
                     .cp = inner,
                     .tp = degree(mesh::Axis::kTp),
                     .island = degree(mesh::Axis::kIsland)});
}

// Whether a line is the first of its chunk to see what another stage has sent.
bool follows_transfer(const plan::PlanSet& plan, const plan::Instr& line) {
  const std::vector<plan::Node>& nodes = plan.program.nodes;
  const auto other = [&](int next) {
    return next >= 0 && next < static_cast<int>(nodes.size()) &&
           nodes[next].stage != nodes[line.node].stage;
  };
  if (line.verb == Verb::kForward) return other(line.node - 1);
  return (line.verb == Verb::kBackward || line.verb == Verb::kBackwardInput) &&
         other(line.node + 1);
}

// Exchanges of units that are shared over the same axes, concurrent with a node, in seconds.
struct Collectives {
  plan::UnitAxes axes;
  double all = 0;
  double replicas = 0;  // of it, among those that hold the same shards
};

}  // namespace

Pricing::Pricing(const config::Job& job, const model::ModelSpec& model, const Practice& practice,
                 const Cluster& cluster)
    : job_(job),
      practice_(practice),
      cluster_(cluster),
      network_(cluster, model::mesh_of(job), job.network.algorithm,
               job.precision.numerics == config::Numerics::kCanonical),
      kernels_(job, model, practice) {
  const config::Parallel& parallel = job.parallel;
  if (parallel.cp > 1 && parallel.context == config::ContextMethod::kHierarchical)
    heads_.emplace(cluster, neighbours(model::mesh_of(job), parallel.context_inner));
}

const NodeCost& Pricing::cost_of(const plan::Node& node) const {
  const auto [cost, absent] = costs_.try_emplace(kernels_.like(node.name));
  if (absent) {
    check_type(cluster_.gpu, kernels_.type_of(node.name));
    cost->second = priced(cluster_.gpu, practice_, kernels_.of(node.name));
  }
  return cost->second;
}

double Pricing::exchange(const simulate::Exchanged& exchanged) const {
  if (exchanged.axes == mesh::AxisSet(mesh::Axis::kPp)) {
    const double ranks = exchanged.ranks;
    const bool one_way = exchanged.kind == plan::Exchange::kSendRecv;
    return transfer(one_way ? exchanged.bytes : 2 * exchanged.bytes * (ranks - 1) / ranks);
  }
  if (exchanged.within > 0)
    return exchanged.times * Network(cluster_, plan::in_blocks(network_.mesh(), exchanged.within))
                                 .seconds(exchanged.kind, exchanged.axes, exchanged.bytes);
  return exchanged.times * network_.seconds(exchanged.kind, exchanged.axes, exchanged.bytes);
}

double Pricing::expected(const plan::Program& program, plan::ValueId value) const {
  const plan::Value& sent = program.values[value];
  double share = 1;
  if (sent.varies)
    for (const plan::Node& node : program.nodes)
      if (plan::contains(node.writes, value)) share = kernels_.share_of(node.name);
  return share * static_cast<double>(sent.bytes);
}

double Pricing::transfer(double bytes) const {
  const int tp = job_.parallel.tp;
  if (!practice_.splits_transfers || tp == 1 || job_.parallel.sequence_parallel)
    return network_.transfer(bytes);
  return network_.transfer(bytes / tp) +
         network_.seconds(plan::Exchange::kAllGather, mesh::Axis::kTp, bytes);
}

// What is loaded for the first stage's nodes: of each value as much as that of them reads which is expected to read most.
double Pricing::loaded(const plan::PlanSet& plan, int rank) const {
  double bytes = 0;
  for (const plan::ValueId value :
       plan::inputs_of_stage(plan.program, plan.mesh.coordinate(rank, mesh::Axis::kPp))) {
    double share = 0;
    for (const plan::Node& node : plan.program.nodes)
      if (plan::contains(node.reads, value)) share = std::max(share, kernels_.share_of(node.name));
    bytes += share * static_cast<double>(plan.program.values[value].bytes);
  }
  return bytes;
}

double Pricing::swept(const plan::PlanSet& plan, int rank, const plan::Instr& line) const {
  const double bytes = simulate::moved_bytes(plan, rank, line);
  if (bytes == 0) return 0;
  if (!cluster_.gpu.core) return streamed_seconds(cluster_.gpu, bytes);
  const Core& core = *cluster_.gpu.core;
  if (line.verb == Verb::kGradNorm || line.verb == Verb::kEma) return bytes / core.norm_rate;
  if (line.verb == Verb::kLoad && !config::info(job_).chain)
    return loaded(plan, rank) / core.load_rate;
  return streamed_seconds(cluster_.gpu, bytes);
}

double Pricing::node(const plan::Node& node, Verb verb) const {
  const NodeCost& cost = cost_of(node);
  const bool backward = verb == Verb::kBackward || verb == Verb::kBackwardInput;
  const bool weight = verb == Verb::kBackward || verb == Verb::kBackwardWeight;
  double compute = backward || weight ? 0 : cost.forward;
  if (verb == Verb::kRecompute && practice_.stops_early) compute -= cost.last;
  const bool kept = verb == Verb::kRecompute && practice_.keeps_attention;
  if (kept) compute -= cost.attention;
  if (backward) {
    compute += cost.input;
    for (const plan::Part& part : node.parts)
      if (part.recomputed)
        if (const auto found = cost.parts.find(part.name); found != cost.parts.end())
          compute += found->second;
  }
  if (weight) compute += cost.weight;
  return compute + tensor(node, cost, verb, compute) + (kept ? 0 : context(node, cost, verb));
}

// Seconds that tensor-parallel exchanges add to a line. Megatron-LM's backward sums gradients of a layer's inputs while
// it computes those of weights. It gathers the inputs of the latter while it computes the former; it waits for
// gradients of a layer's results.
double Pricing::tensor(const plan::Node& node, const NodeCost& cost, Verb verb,
                       double compute) const {
  const double share = kernels_.share_of(node.name);
  const bool weight = verb == Verb::kBackward || verb == Verb::kBackwardWeight;
  const bool backward = weight || verb == Verb::kBackwardInput;
  double all = 0, summed = 0, recomputed = 0;
  for (const plan::NodeExchange& one : node.exchanges) {
    const int times = plan::times(node, one, verb);
    if (times == 0 || is_over_cp(one)) continue;
    const bool sums = one.kind != plan::Exchange::kAllGather;
    if (verb == Verb::kRecompute && practice_.keeps_operators && sums) continue;
    const double once =
        network_.seconds(one.kind, one.axes, share * static_cast<double>(one.bytes));
    all += times * once;
    if (sums) summed += times * once;
    if (one.kind == plan::Exchange::kAllGather && weight) recomputed += one.weight * once;
  }
  double hidden = 0;
  if (practice_.tensor == TensorOverlap::kEverything) hidden = std::min(all, compute);
  if (practice_.tensor == TensorOverlap::kBackward && backward)
    hidden = std::min(summed, cost.weight) + std::min(recomputed, cost.input);
  return all - hidden;
}

UnitCost Pricing::unit(const plan::Recipe& recipe, const plan::Unit& unit) const {
  const auto numel = static_cast<double>(unit.numel);
  const double values = numel * static_cast<double>(size_of(plan::param_type(recipe, unit)));
  const double grads = numel * static_cast<double>(size_of(plan::reduce_type(recipe)));
  UnitCost cost;
  const mesh::AxisSet shards = unit.axes.shards, replicas = unit.axes.replicas - shards;
  if (recipe.zero == 0) {
    cost.reduce = network_.seconds(plan::Exchange::kAllReduce, unit.axes.replicas, grads);
  } else {
    const double part = grads / network_.mesh().degree(shards - mesh::Axis::kCp) /
                        network_.mesh().degree(shards & mesh::Axis::kCp);
    cost.gather = network_.seconds(plan::Exchange::kAllGather, shards, values);
    cost.replicas = network_.seconds(plan::Exchange::kAllReduce, replicas, part);
    cost.reduce = network_.seconds(plan::Exchange::kReduceScatter, shards, grads) + cost.replicas;
  }
  if (!unit.trainable) cost.reduce = cost.replicas = 0;
  return cost;
}

double Pricing::overlapped_node(const plan::Program& program, const plan::Recipe& recipe,
                                const plan::Node& node_of, Verb verb) const {
  const double compute = node(node_of, verb);
  if (recipe.zero < 2 || compute <= 0) return compute;
  const bool backward = verb != Verb::kForward && verb != Verb::kRecompute;
  double exchanged = 0;
  std::vector<Collectives> over;  // the units' axes
  for (const plan::UnitId id : node_of.units) {
    const plan::Unit& one = program.units[id];
    const UnitCost cost = unit(recipe, one);
    const double all = (recipe.zero == 3 ? cost.gather : 0) + (backward ? cost.reduce : 0);
    const auto same = std::ranges::find(over, one.axes, &Collectives::axes);
    Collectives& of = same != over.end() ? *same : over.emplace_back(Collectives{one.axes});
    of.all += all;
    if (backward) of.replicas += cost.replicas;
    exchanged += all;
  }
  double busy = 0;
  for (const Collectives& of : over)
    busy += (of.all - of.replicas) * network_.channels(of.axes.shards) +
            of.replicas * network_.channels(of.axes.replicas - of.axes.shards);
  return with_shards(cluster_.gpu, practice_, compute, exchanged, busy);
}

// A node's line that waits for collectives of its units as well, where the practice does not overlap them.
simulate::LineSeconds Pricing::of_node(const plan::PlanSet& plan, const plan::Node& node_of,
                                       Verb verb, simulate::LineSeconds waited) const {
  const double all = overlapped_node(plan.program, plan.recipe, node_of, verb);
  waited.busy += all;
  if (!practice_.overlaps_shards) waited.waited += std::max(all - node(node_of, verb), 0.0);
  return waited;
}

// Seconds of a line for exchanges that the practice does not overlap with computation.
simulate::LineSeconds Pricing::waits(const plan::PlanSet& plan, int rank,
                                     const plan::Instr& line) const {
  simulate::LineSeconds sum = 0;
  if (!practice_.overlaps_transfers && follows_transfer(plan, line)) {
    const plan::ValueId value = line.verb == Verb::kForward
                                    ? plan.program.nodes[line.node].reads.front()
                                    : plan.program.nodes[line.node].writes.front();
    sum.transfers = transfer(expected(plan.program, value));
    sum.busy += sum.transfers;
  }
  if (!practice_.overlaps_reduction && line.verb == Verb::kStep)
    for (const plan::Instr& other : plan.list(rank))
      if (other.unit == line.unit && other.mb < 0 &&
          (other.verb == Verb::kReduceGrads ||
           (other.verb == Verb::kUnshard && plan.recipe.zero < 3)))
        for (const simulate::Exchanged& one : simulate::exchanges(plan, other))
          sum.busy += exchange(one);
  sum.waited = sum.busy;
  return sum;
}

simulate::LineSeconds Pricing::line(const plan::PlanSet& plan, int rank,
                                    const plan::Instr& line) const {
  simulate::LineSeconds waited = waits(plan, rank, line);
  switch (line.verb) {
    case Verb::kForward:
    case Verb::kRecompute:
    case Verb::kBackward:
    case Verb::kBackwardInput:
    case Verb::kBackwardWeight:
      return of_node(plan, plan.program.nodes[line.node], line.verb, waited);
    case Verb::kUpdateMatrices:
      waited.busy += multiplied_seconds(cluster_.gpu, simulate::matrix_flops(plan, line.unit));
      break;
    case Verb::kSend:
      if (!practice_.overlaps_transfers) return 0.0;
      return transfer(expected(plan.program, line.value));
    case Verb::kRecv: return 0.0;
    case Verb::kUnshard:
      // A practice that overlaps no reduction has paid with the step.
      if (plan.recipe.zero < 3 ? !practice_.overlaps_reduction : !practice_.overlaps_shards)
        return 0.0;
      break;
    case Verb::kReduceGrads:
      if (line.mb < 0 ? !practice_.overlaps_reduction : !practice_.overlaps_shards) return 0.0;
      break;
    case Verb::kReload:
    case Verb::kOffload:
      if (line.axes.empty()) {
        const plan::Offload& offload = plan.recipe.offload;
        const plan::Tier tier =
            line.value >= 0 ? offload.activations : plan::tier_of(offload, line.tensors);
        const double rate = tier == plan::Tier::kNvme ? cluster_.disk_rate / cluster_.gpus_per_host
                                                      : cluster_.host_rate;
        if (rate <= 0)
          fail(ErrorKind::kUsage, "cluster {} names no {}, which offloading needs", cluster_.name,
               tier == plan::Tier::kNvme ? "disk_rate" : "host_rate");
        const int stage = plan.mesh.coordinate(rank, mesh::Axis::kPp);
        return static_cast<double>(plan::transit_bytes(plan, stage, line)) / rate;
      }
      break;
    default: break;
  }
  for (const simulate::Exchanged& one : simulate::exchanges(plan, line))
    waited.busy += exchange(one);
  waited.busy += swept(plan, rank, line);
  return waited;
}

}  // namespace trireme::planner
