#include "trireme/plan/passes/compile.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/plan/check/list_check.h"
#include "trireme/plan/check/recipe_check.h"
#include "trireme/plan/compile/matrix_updates.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/passes/lanes.h"
#include "trireme/plan/passes/lower.h"
#include "trireme/plan/passes/offload.h"
#include "trireme/plan/passes/p2p.h"
#include "trireme/plan/passes/recompute.h"
#include "trireme/plan/passes/reduce.h"
#include "trireme/plan/passes/tail.h"
#include "trireme/plan/passes/unshard.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

void check_recipe(const Recipe& recipe) {
  if (const auto mistake = mistake_in(recipe)) fail(ErrorKind::kUsage, "{}", *mistake);
}

void check_islands(const Program& program, const mesh::Mesh& mesh, const Recipe& recipe) {
  if (const auto mistake = mistake_in_outer(mesh, recipe)) fail(ErrorKind::kUsage, "{}", *mistake);
  if (!recipe.outer) return;
  for (const Unit& unit : program.units)
    if (unit.ema_of >= 0)
      fail(ErrorKind::kUsage,
           "unit {} is a moving average, which islands do not merge; leave network.outer out",
           unit.name);
}

void check_mesh(const Program& program, const mesh::Mesh& mesh) {
  const int stages = stage_count(program);
  if (mesh.degree(Axis::kPp) != stages)
    fail(ErrorKind::kUsage, "mesh {} has pp {}, program {} has {} stage(s); set pp to {}",
         print(mesh), mesh.degree(Axis::kPp), program.name, stages, stages);
}

void check_grid_fits(const Program& program, const Recipe& recipe, const schedules::Grid& grid) {
  const int stages = stage_count(program);
  if (grid.ranks() != stages || grid.micro_batches != recipe.micro_batches)
    fail(ErrorKind::kUsage, "the schedule is of {} and {} micro-batches, the job has {} and {}",
         counted(grid.ranks(), "rank"), grid.micro_batches, stages, recipe.micro_batches);
  if (grid.chunks != chunk_count(program))
    fail(ErrorKind::kUsage, "the schedule has {} chunks a rank, program {} is cut into {}",
         grid.chunks, program.name, chunk_count(program));
  int stage = -1;
  const Node* previous = nullptr;
  for (const Node& node : program.nodes) {
    if (previous == nullptr || node.stage != previous->stage || node.chunk != previous->chunk)
      ++stage;
    previous = &node;
    if (node.stage != schedules::rank_of(grid.placement, stages, stage))
      fail(ErrorKind::kUsage,
           "program {} has its stage {} on rank {}, the schedule on rank {}; place it as the "
           "schedule does",
           program.name, stage, node.stage, schedules::rank_of(grid.placement, stages, stage));
  }
}

// A joint loss comes after all forwards, and all backwards begin with its result.
void check_joint(const Program& program, const schedules::Grid& grid) {
  const auto joint = std::ranges::find_if(program.nodes, &Node::joint);
  if (joint == program.nodes.end()) return;
  for (const std::vector<schedules::Action>& row : grid.rows) {
    bool back = false;
    for (const schedules::Action& action : row) {
      const bool forward = action.work == schedules::Work::kForward;
      if (forward && back)
        fail(ErrorKind::kUsage,
             "loss {} needs all micro-batches at once, but the schedule has a backward before the "
             "forward of micro-batch {}; set parallel.schedule=gpipe",
             joint->name, action.mb);
      back = !forward;
    }
  }
}

void check_offload(const Program& program, const mesh::Mesh& mesh, const Recipe& recipe) {
  const Offload& offload = recipe.offload;
  for (Tier tier : {offload.optimizer, offload.params, offload.grads})
    if (tier == Tier::kTp)
      fail(ErrorKind::kUsage,
           "tp ranks hold parts of units already; only offload.activations can be tp");
  if (offload.activations == Tier::kTp && mesh.degree(Axis::kTp) == 1)
    fail(ErrorKind::kUsage,
         "offload.activations=tp shares values out over tp ranks, and mesh {} has one; set "
         "parallel.tp, or choose host or nvme",
         print(mesh));
  if (offload.optimizer == Tier::kNone && offload.params == Tier::kNone) return;
  for (const Unit& unit : program.units)
    if (unit.ema_of >= 0)
      fail(ErrorKind::kUsage,
           "unit {} is the moving average of {}, so both stay in memory; offload gradients and "
           "activations only",
           unit.name, program.units[unit.ema_of].name);
}

// Optimizer state that a job asks to offload must exist and be able to leave.
void check_states_leave(const PlanSet& plan) {
  const Offload& offload = plan.recipe.offload;
  const bool trains = std::ranges::any_of(plan.program.units, &Unit::trainable);
  if (offload.optimizer != Tier::kNone && trains &&
      !Away(plan.program, plan.recipe).any(TensorKind::kStates))
    fail(ErrorKind::kUsage,
         "offload.optimizer={}:{} is less than every unit's share of the optimizer; raise it, or "
         "leave offload.optimizer out",
         name(offload.optimizer), offload.ratio);
}

// A unit that is stepped on a stage needs its gradient there.
void check_training(const Program& program, const GradientFlow& flow) {
  for (UnitId unit = 0; unit < static_cast<UnitId>(program.units.size()); ++unit) {
    const Unit& one = program.units[unit];
    const std::vector<int> stages = stages_of_unit(program, unit);
    for (int stage : stages)
      if (one.trainable && gradient_users(program, flow, unit, stage).empty())
        fail(ErrorKind::kUsage,
             "unit {} is trainable, but on stage {} no loss depends on it; freeze it", one.name,
             stage);
    if (one.ema_of >= 0 && stages != stages_of_unit(program, one.ema_of))
      fail(ErrorKind::kUsage,
           "unit {} follows {} from another stage; place their users on one stage", one.name,
           program.units[one.ema_of].name);
  }
}

// Of what forwards keep, what an input half leaves to the weight half.
double kept_share(const Program& program, const GradientFlow& flow) {
  double saved = 0, kept = 0;
  for (NodeId n = 0; n < static_cast<NodeId>(program.nodes.size()); ++n) {
    const Node& node = program.nodes[n];
    saved += static_cast<double>(node.segment >= 0 ? node.saved_bytes : kept_bytes(node));
    if (splits_backward(program, flow, n)) kept += static_cast<double>(node.split->kept_bytes);
  }
  return saved > 0 ? std::min(kept / saved, 1.0) : 1;
}

// The last pass, with as little on its way between stages as the schedule can do with.
void order_lanes(const std::vector<Stage>& stages, PlanSet& plan) {
  const std::vector<List> lists = plan.lists;
  for (;; plan.recipe.unsent *= 2) {
    for (const Stage& stage : stages) {
      const auto index = static_cast<std::size_t>(stage.index);
      plan.lists[index] = lanes(stage, lists[index]);
    }
    // The validator explains a plan that stops for another reason.
    if (stages.size() == 1 || plan.recipe.unsent > plan.recipe.micro_batches ||
        runs_to_the_end(plan))
      return;
  }
}

}  // namespace

schedules::Grid schedule_grid(const Program& program, const mesh::Mesh& mesh,
                              const Recipe& recipe) {
  const GradientFlow flow = gradient_flow(program);
  const std::vector<NodeSeconds> costs = node_costs(program, flow);
  schedules::ScheduleShape shape{.ranks = mesh.degree(Axis::kPp),
                                 .chunks = chunk_count(program),
                                 .micro_batches = recipe.micro_batches,
                                 .activation_limit = recipe.activation_limit,
                                 .barrier = true};  // grad_norm
  const Node* previous = nullptr;
  double forward = 0;
  for (std::size_t n = 0; n < costs.size(); ++n) {
    const Node& node = program.nodes[n];
    if (previous == nullptr || node.stage != previous->stage || node.chunk != previous->chunk)
      shape.stages.push_back({.forward = 0, .input = 0, .weight = 0});
    previous = &node;
    schedules::StageCost& stage = shape.stages.back();
    stage.forward += costs[n].forward;
    stage.input += costs[n].input;
    stage.weight += costs[n].weight;
    forward += costs[n].forward;
  }
  shape.kept = kept_share(program, flow);
  shape.transfer = recipe.transfer * forward / static_cast<double>(shape.stages.size());
  return schedules::make_grid(recipe.schedule, shape);
}

PlanSet compile(Program program, const mesh::Mesh& mesh, const Recipe& recipe) {
  check_recipe(recipe);
  check_mesh(program, mesh);
  const schedules::Grid grid = schedule_grid(program, mesh, recipe);
  return compile(std::move(program), mesh, recipe, grid);
}

PlanSet compile(Program program, const mesh::Mesh& mesh, const Recipe& recipe,
                const schedules::Grid& grid) {
  check_program(program);
  check_recipe(recipe);
  check_mesh(program, mesh);
  check_offload(program, mesh, recipe);
  check_islands(program, mesh, recipe);
  check_grid_fits(program, recipe, grid);
  check_joint(program, grid);
  const GradientFlow flow = gradient_flow(program);
  check_training(program, flow);
  for (Unit& unit : program.units)
    if (!sums_at_low_rank(recipe) && !unit.by_matrix) unit.matrices.clear();
  assign_owners(program, mesh, recipe);
  PlanSet plan{.program = std::move(program),
               .mesh = mesh,
               .recipe = recipe,
               .lists = {},
               .list_of_rank = {}};
  std::vector<Stage> stages;
  for (int index = 0; index < mesh.degree(Axis::kPp); ++index)
    stages.push_back({.program = plan.program,
                      .mesh = plan.mesh,
                      .recipe = plan.recipe,
                      .flow = flow,
                      .index = index});
  for (const Stage& stage : stages)
    plan.lists.push_back(recompute(stage, lower(stage, grid.rows[stage.index])));
  plan.lists = p2p(plan.program, flow, std::move(plan.lists));
  for (const Stage& stage : stages) {
    List& list = plan.lists[stage.index];
    list = offload_values(stage, std::move(list));
    list = unshard(stage, std::move(list));
    list = offload_params(stage, std::move(list));
    list = reduce(stage, std::move(list));
    list = tail(stage, std::move(list));
    list = offload_gradients(stage, std::move(list));
    list = offload_steps(stage, std::move(list));
  }
  check_states_leave(plan);
  for (int rank = 0; rank < mesh.world(); ++rank)
    plan.list_of_rank.push_back(mesh.coordinate(rank, Axis::kPp));
  order_lanes(stages, plan);
  return plan;
}

void check_activations_leave(const PlanSet& plan) {
  const Tier tier = plan.recipe.offload.activations;
  const GradientFlow flow = gradient_flow(plan.program);
  const auto leaves = [](const Instr& line) {
    return line.verb == Verb::kOffload && line.value >= 0;
  };
  if (tier == Tier::kNone ||
      std::ranges::find(flow.node_has_backward, true) == flow.node_has_backward.end() ||
      std::ranges::any_of(plan.lists,
                          [&](const List& list) { return std::ranges::any_of(list, leaves); }))
    return;
  fail(ErrorKind::kUsage,
       "offload.activations={}: nothing of {} can leave: only inputs of recomputed nodes do{}; "
       "recompute more nodes (recompute.policy, less recompute.memory), or leave it out",
       name(tier), plan.program.name,
       tier == Tier::kTp
           ? ", and of these only values that all tp ranks have (parallel.sequence_parallel=false)"
           : "");
}

}  // namespace trireme::plan
