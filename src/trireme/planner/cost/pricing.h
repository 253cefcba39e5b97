// Pricing: the seconds of a plan's lines on a cluster, for simulate::simulate.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "trireme/plan/simulate/cost.h"
#include "trireme/planner/cost/layer_kernels.h"
#include "trireme/planner/cost/program_kernels.h"
#include "trireme/planner/hardware/network.h"

namespace trireme::planner {

// Cost on one rank, in seconds of one micro-batch.
struct NodeCost {
  double forward = 0;
  double input = 0;
  double weight = 0;
  double last = 0;                                   // of forward, NodeKernels::last
  double attention = 0, attention_input = 0;         // of forward and input
  std::map<std::string, double, std::less<>> parts;  // seconds of recomputed forward
};

// Exchanges of the ranks that share a unit, in seconds.
struct UnitCost {
  double gather = 0;    // of its parameters from shards
  double reduce = 0;    // of its gradients, to shards or to all
  double replicas = 0;  // of reduce, among those that hold the same shards
};

class Pricing {
 public:
  // `job` is resolved and `model` its own; all that is given must outlive this.
  Pricing(const config::Job& job, const model::ModelSpec& model, const Practice& practice,
          const Cluster& cluster);

  // Compute and what the node exchanges meanwhile.
  double node(const plan::Node& node, plan::Verb verb) const;
  UnitCost unit(const plan::Recipe& recipe, const plan::Unit& unit) const;
  // A node of a plan that gathers and reduces units while it computes: the collectives take some of the processor's units.
  double overlapped_node(const plan::Program& program, const plan::Recipe& recipe,
                         const plan::Node& node, plan::Verb verb) const;
  double exchange(const simulate::Exchanged& exchanged) const;
  double transfer(double bytes) const;  // between stages

  // Seconds of a line of the plan; if the practice does not overlap it as the plan does, later lines pay.
  simulate::LineSeconds line(const plan::PlanSet& plan, int rank, const plan::Instr& line) const;

  const Network& network() const { return network_; }
  const Gpu& gpu() const { return cluster_.gpu; }

 private:
  const NodeCost& cost_of(const plan::Node& node) const;
  // Bytes of a line without a node: loading, norms of gradients, updates, running averages.
  double swept(const plan::PlanSet& plan, int rank, const plan::Instr& line) const;
  double loaded(const plan::PlanSet& plan, int rank) const;  // bytes that are expected
  // Expected bytes, from those that the program states.
  double expected(const plan::Program& program, plan::ValueId value) const;
  double tensor(const plan::Node& node, const NodeCost& cost, plan::Verb verb,
                double compute) const;
  double context(const plan::Node& node, const NodeCost& cost, plan::Verb verb) const;
  double helped(const NodeCost& cost, bool forward, double keys) const;
  static bool is_over_cp(const plan::NodeExchange& exchange) {
    return exchange.axes == mesh::AxisSet(mesh::Axis::kCp);
  }
  simulate::LineSeconds waits(const plan::PlanSet& plan, int rank, const plan::Instr& line) const;
  simulate::LineSeconds of_node(const plan::PlanSet& plan, const plan::Node& node, plan::Verb verb,
                                simulate::LineSeconds waited) const;

  const config::Job& job_;
  const Practice& practice_;
  const Cluster& cluster_;
  Network network_;
  std::optional<Network> heads_;  // among the cp ranks that exchange heads, where these are not all
  ProgramKernels kernels_;
  mutable std::map<std::size_t, NodeCost> costs_;  // of the first nodes of their kind
};

}  // namespace trireme::planner
