#include "trireme/planner/cost/estimate.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/compile/matrix_updates.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"
#include "trireme/planner/cost/stage_time.h"

namespace trireme::planner {
namespace {

using Layers = std::vector<model::Layer>;
using plan::Verb;

class StageTimes {
 public:
  StageTimes(const plan::Program& program, const mesh::Mesh& mesh, const plan::Recipe& recipe,
             const Pricing& pricing, const schedules::Grid& grid)
      : program_(program),
        mesh_(mesh),
        recipe_(recipe),
        pricing_(pricing),
        grid_(grid),
        stages_(static_cast<std::size_t>(grid.ranks() * grid.chunks)) {
    const plan::GradientFlow flow = plan::gradient_flow(program);
    for (std::size_t n = 0; n < program.nodes.size(); ++n)
      add(program.nodes[n], flow.node_has_backward[n]);
  }

  // From the first forward to the last backward. Units arrive and gradients leave during computation.
  double makespan(const Practice& practice) const {
    const double between = grid_.ranks() > 1 ? pricing_.transfer(transferred()) : 0;
    const double wait = practice.overlaps_transfers ? 0 : between;
    schedules::ScheduleShape shape{.ranks = grid_.ranks(),
                                   .chunks = grid_.chunks,
                                   .micro_batches = grid_.micro_batches,
                                   .transfer = between - wait};
    for (std::size_t at = 0; at < stages_.size(); ++at) {
      const StageTime& stage = stages_[at];
      StageTime waiting = stage;
      waiting.forward += at > 0 ? wait : 0;
      waiting.input += at + 1 < stages_.size() ? wait : 0;
      const StageTurn turn = turn_of(waiting, recipe_.zero, practice);
      const double input = turn.backward * stage.input / std::max(stage.backward(), 1e-12);
      shape.stages.push_back(
          {.forward = turn.forward, .input = input, .weight = turn.backward - input});
    }
    return (recipe_.zero == 3 && practice.overlaps_shards ? stages_.front().first : 0) +
           schedules::time_grid(grid_, shape).makespan;
  }

  // On the pipeline rank where it is longest, what remains when the last backward has ended.
  double tail(const Practice& practice) const {
    double longest = 0;
    for (int rank = 0; rank < grid_.ranks(); ++rank) {
      StageTime all;
      for (int chunk = 0; chunk < grid_.chunks; ++chunk)
        all += stages_[schedules::stage_of(grid_.placement, grid_.ranks(), rank, chunk)];
      longest = std::max(longest, stepping(rank) + waits_at_end(all, recipe_.zero, practice));
    }
    return longest;
  }

 private:
  void add(const plan::Node& node, bool has_backward) {
    StageTime& stage =
        stages_[schedules::stage_of(grid_.placement, grid_.ranks(), node.stage, node.chunk)];
    const double forward = pricing_.overlapped_node(program_, recipe_, node, Verb::kForward);
    stage.forward += forward;
    if (has_backward) {
      const double backward = pricing_.overlapped_node(program_, recipe_, node, Verb::kBackward);
      const double weight = std::min(pricing_.node(node, Verb::kBackwardWeight), backward);
      stage.input += backward - weight + recomputed(node);
      stage.weight += weight;
    }
    for (const plan::UnitId id : node.units) {
      const plan::Unit& unit = program_.units[id];
      const UnitCost cost = pricing_.unit(recipe_, unit);
      stage.gathers += cost.gather;
      if (has_backward) stage.regathers += cost.gather;
      if (unit.trainable) stage.renewed += cost.gather;
      stage.reduces += cost.reduce;
      if (stage.first == 0) stage.first = cost.gather;
    }
  }

  double recomputed(const plan::Node& node) const {
    return node.segment < 0 ? 0
                            : pricing_.overlapped_node(program_, recipe_, node, Verb::kRecompute);
  }

  // Bytes of an activation between stages.
  double transferred() const {
    for (const plan::Value& value : program_.values)
      if (value.differentiable && !value.shape.empty()) return static_cast<double>(value.bytes);
    return 0;
  }

  double stepping(int rank) const {
    std::set<plan::UnitId> held;
    for (const plan::Node& node : program_.nodes)
      if (node.stage == rank) held.insert(node.units.begin(), node.units.end());
    Updated updated;
    for (const plan::UnitId id : held) {
      const plan::Unit& unit = program_.units[id];
      const std::int64_t part =
          unit.numel / mesh_.degree(plan::sharing_of(mesh_, recipe_, unit).shards);
      const auto elements = static_cast<double>(part);
      if (unit.ema_of >= 0) updated.averaged += elements;
      if (!unit.trainable) continue;
      updated.elements += elements;
      updated.states += static_cast<double>(plan::state_bytes(recipe_, unit, part));
      for (const plan::Matrix& matrix : unit.matrices)
        if (unit.by_matrix)
          updated.flops += plan::update_flops(matrix, recipe_.matrix_rounds) * elements /
                           static_cast<double>(unit.numel);
    }
    return update_seconds(pricing_.gpu(), updated, static_cast<double>(size_of(recipe_.master)),
                          static_cast<double>(size_of(recipe_.grads)));
  }

  const plan::Program& program_;
  const mesh::Mesh& mesh_;
  const plan::Recipe& recipe_;
  const Pricing& pricing_;
  const schedules::Grid& grid_;
  std::vector<StageTime> stages_;
};

}  // namespace

Candidate::Candidate(config::Job job, const Practice& practice)
    : job_(std::move(job)),
      practice_(practice),
      model_(model::describe(job_)),
      mesh_(model::mesh_of(job_)),
      recipe_(model::recipe_of(job_)),
      grid_(model::grid_of(job_, model_)) {
  recipe_.gathers_after_step = !practice_.overlaps_gathers;
}

plan::PlanSet Candidate::plan() const {
  return plan::compile(model_.program, mesh_, recipe_, grid_);
}

simulate::Forecast Candidate::simulate(const Cluster& cluster) const {
  const plan::PlanSet compiled = plan();
  const Pricing pricing(job_, model_, practice_, cluster);
  return simulate::simulate(compiled, line_cost(compiled, pricing));
}

std::pair<double, double> Candidate::block_seconds(const Cluster& cluster) const {
  const Pricing pricing(job_, model_, practice_, cluster);
  const auto block =
      model_.program.nodes.begin() +
      (std::ranges::find_if(model_.layers, std::not_fn(&Layers::empty)) - model_.layers.begin());
  const auto of = [&](Verb verb) {
    return pricing.overlapped_node(model_.program, recipe_, *block, verb);
  };
  return {of(Verb::kForward),
          of(Verb::kBackward) + (block->segment >= 0 ? of(Verb::kRecompute) : 0)};
}

double Candidate::step_seconds(const Cluster& cluster) const {
  const Pricing pricing(job_, model_, practice_, cluster);
  const StageTimes times(model_.program, mesh_, recipe_, pricing, grid_);
  return times.makespan(practice_) + times.tail(practice_);
}

simulate::LineCost line_cost(const plan::PlanSet& plan, const Pricing& pricing) {
  return [&](int rank, const plan::Instr& line) { return pricing.line(plan, rank, line); };
}

}  // namespace trireme::planner
