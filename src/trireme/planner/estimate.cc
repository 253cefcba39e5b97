#include "trireme/planner/estimate.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/arch/language_model.h"
#include "trireme/arch/layout.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_types.h"

namespace trireme::planner {
namespace {

namespace schedules = plan::schedules;
using plan::Verb;

// What data-parallel ranks exchange for one unit, in seconds.
struct UnitCost {
  double gather = 0;
  double reduce = 0;  // to shards or to all
};

// Of a stage's nodes in one micro-batch: computing, and what its units' shards take beside it.
struct StageTime {
  double forward = 0, input = 0, weight = 0;
  double gathers = 0;  // all units once
  double reduces = 0;
  double first = 0;  // the unit that is gathered before anything can start
};

class Pricer {
 public:
  Pricer(const config::Job& job, const plan::Program& program, const mesh::Mesh& mesh,
         const plan::Recipe& recipe, const Pricing& pricing)
      : program_(program), mesh_(mesh), recipe_(recipe), pricing_(pricing), job_(job) {
    for (const plan::Unit& unit : program.units) units_.push_back(cost_of(unit));
  }

  std::vector<StageTime> stages(const schedules::Grid& grid) const {
    std::vector<StageTime> stages(static_cast<std::size_t>(grid.ranks() * grid.chunks));
    for (const plan::Node& node : program_.nodes) {
      StageTime& stage = stages[static_cast<std::size_t>(
          schedules::stage_of(grid.placement, grid.ranks(), node.stage, node.chunk))];
      const double forward = pricing_.node(node, Verb::kForward);
      stage.forward += forward;
      const double weight = pricing_.node(node, Verb::kBackwardWeight);
      stage.input +=
          pricing_.node(node, Verb::kBackward) - weight + (node.segment >= 0 ? forward : 0);
      stage.weight += weight;
      for (const plan::UnitId unit : node.units) {
        const UnitCost& cost = units_[static_cast<std::size_t>(unit)];
        stage.gathers += cost.gather;
        stage.reduces += cost.reduce;
        if (stage.first == 0) stage.first = cost.gather;
      }
    }
    return stages;
  }

  double stepping(const std::set<plan::UnitId>& units) const {
    double bytes = 0;
    for (const plan::UnitId id : units) {
      const plan::Unit& unit = program_.units[static_cast<std::size_t>(id)];
      if (!unit.trainable) continue;
      const auto part = static_cast<double>(unit.numel) / (recipe_.zero >= 1 ? shards() : 1);
      bytes += part * (3.0 * size_of(recipe_.master) + 2.0 * size_of(recipe_.grads)) +
               2.0 * static_cast<double>(
                         plan::state_bytes(recipe_, unit, static_cast<std::int64_t>(part)));
    }
    return pricing_.streamed(bytes);
  }

 private:
  int shards() const { return mesh_.degree(mesh::kShards); }

  UnitCost cost_of(const plan::Unit& unit) const {
    const auto numel = static_cast<double>(unit.numel);
    const double values = numel * static_cast<double>(size_of(plan::param_type(recipe_, unit)));
    const double grads = numel * static_cast<double>(size_of(plan::reduce_type(recipe_)));
    const Network& network = pricing_.network();
    UnitCost cost;
    if (recipe_.zero >= 1) {
      cost.gather = network.seconds(plan::Exchange::kAllGather, mesh::kShards, values);
      cost.reduce = network.seconds(plan::Exchange::kReduceScatter, mesh::kShards, grads);
      cost.reduce +=
          network.seconds(plan::Exchange::kAllReduce, mesh::Axis::kDpReplicate, grads / shards());
    } else {
      cost.reduce = network.seconds(plan::Exchange::kAllReduce, mesh::kReplicas, grads);
    }
    if (!unit.trainable) cost.reduce = 0;
    return cost;
  }

  const plan::Program& program_;
  const mesh::Mesh& mesh_;
  const plan::Recipe& recipe_;
  const Pricing& pricing_;
  const config::Job& job_;
  std::vector<UnitCost> units_;
};

}  // namespace

Candidate::Candidate(config::Job job, const Practice& practice)
    : job_(std::move(job)),
      practice_(practice),
      model_(arch::describe(job_)),
      mesh_(arch::mesh_of(job_)),
      recipe_(arch::recipe_of(job_)),
      grid_(arch::grid_of(job_, model_)) {}

plan::PlanSet Candidate::plan() const {
  return plan::compile(model_.program, mesh_, recipe_, grid_);
}

double Candidate::step_seconds(const Cluster& cluster) const {
  const Pricing pricing(job_, practice_, cluster);
  const plan::Program& program = model_.program;
  const Pricer pricer(job_, program, mesh_, recipe_, pricing);
  std::vector<StageTime> stages = pricer.stages(grid_);
  const double shared = cluster.gpu.efficiency.shared;
  double between = 0;
  if (grid_.ranks() > 1)
    for (const plan::Value& value : program.values)
      if (value.differentiable && value.shape.size() > 0) {
        between = pricing.transfer(static_cast<double>(value.bytes));
        break;
      }
  schedules::ScheduleShape shape{
      .ranks = grid_.ranks(), .chunks = grid_.chunks, .micro_batches = grid_.micro_batches};
  shape.transfer = practice_.overlaps_transfers ? between : 0;
  double head = 0, tail = 0;
  for (std::size_t at = 0; at < stages.size(); ++at) {
    StageTime& stage = stages[at];
    const double wait = practice_.overlaps_transfers ? 0 : between;
    double forward = stage.forward + (at > 0 ? wait : 0);
    double backward = stage.input + stage.weight + (at + 1 < stages.size() ? wait : 0);
    if (recipe_.zero >= 2) {
      const double out = recipe_.zero == 3 ? stage.gathers : 0;
      const double slowed = [&](double compute, double beside) {
        const double covered = std::min(beside / std::max(compute, 1e-12), 1.0);
        return std::max(compute * (1 + covered * (1 / shared - 1)), beside);
      }(forward, out);
      forward = slowed;
      const double beside = out + stage.reduces;
      const double covered = std::min(beside / std::max(backward, 1e-12), 1.0);
      backward = std::max(backward * (1 + covered * (1 / shared - 1)), beside);
      if (at == 0) head = recipe_.zero == 3 ? stage.first : 0;
    }
    const double halves = stage.input + stage.weight;
    const double input = backward * stage.input / std::max(halves, 1e-12);
    shape.stages.push_back({.forward = forward, .input = input, .weight = backward - input});
  }
  const double makespan = schedules::time_grid(grid_, shape).makespan;
  // By pipeline rank: what remains when its last backward has ended.
  for (int rank = 0; rank < grid_.ranks(); ++rank) {
    std::set<plan::UnitId> held;
    double reduces = 0, gathers = 0, covering = 0, forwards = 0;
    for (const plan::Node& node : program.nodes)
      if (node.stage == rank) held.insert(node.units.begin(), node.units.end());
    for (int chunk = 0; chunk < grid_.chunks; ++chunk) {
      const auto stage = static_cast<std::size_t>(
          schedules::stage_of(grid_.placement, grid_.ranks(), rank, chunk));
      reduces += stages[stage].reduces;
      gathers += stages[stage].gathers;
      covering += stages[stage].input + stages[stage].weight;
      forwards += stages[stage].forward;
    }
    double rest = pricer.stepping(held);
    if (recipe_.zero <= 1)
      rest += practice_.overlaps_reduction ? std::max(reduces - covering, 0.0) : reduces;
    if (recipe_.zero == 1 || recipe_.zero == 2)
      rest += practice_.overlaps_gathers ? std::max(gathers - forwards, 0.0) : gathers;
    tail = std::max(tail, rest);
  }
  return head + makespan + tail;
}

sim::LineCost line_cost(const plan::PlanSet& plan, const Pricing& pricing) {
  return [&](int rank, const plan::Instr& line) { return pricing.line(plan, rank, line); };
}

}  // namespace trireme::planner
