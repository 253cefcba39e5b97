#include "trireme/base/error.h"
#include "trireme/plan/passes/lanes.h"
#include "trireme/plan/passes/p2p.h"
#include "trireme/plan/passes/recompute.h"
#include "trireme/plan/passes/reduce.h"
#include "trireme/plan/passes/schedule.h"
#include "trireme/plan/passes/tail.h"
#include "trireme/plan/passes/unshard.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

void check_recipe(const Recipe& recipe) {
  if (recipe.zero < 0 || recipe.zero > 3)
    fail(ErrorKind::kUsage, "zero is {}; choose a row 0, 1, 2 or 3", recipe.zero);
  if (recipe.micro_batches < 1)
    fail(ErrorKind::kUsage, "a step has {} micro-batches; needs 1 or more", recipe.micro_batches);
  if (recipe.prefetch < 0)
    fail(ErrorKind::kUsage, "prefetch is {}; needs 0 or more units", recipe.prefetch);
  if (recipe.optimizer_states < 0)
    fail(ErrorKind::kUsage, "optimizer_states is {}; needs 0 or more", recipe.optimizer_states);
}

void check_mesh(const Program& program, const mesh::Mesh& mesh, const Recipe& recipe) {
  const int stages = stage_count(program);
  if (mesh.degree(Axis::kPp) != stages)
    fail(ErrorKind::kUsage, "mesh {} has pp {}, program {} has {} stage(s); set pp to {}",
         print(mesh), mesh.degree(Axis::kPp), program.name, stages, stages);
  if (stages > 1 && recipe.schedule == Schedule::kAccumulate)
    fail(ErrorKind::kUsage, "program {} has {} stages, schedule accumulate runs one; choose gpipe",
         program.name, stages);
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

List compile_stage(const Stage& stage) {
  List list = stage.recipe.schedule == Schedule::kGpipe ? gpipe(stage) : accumulate(stage);
  list = recompute(stage, std::move(list));
  list = p2p(stage, std::move(list));
  list = unshard(stage, std::move(list));
  list = reduce(stage, std::move(list));
  list = tail(stage, std::move(list));
  return lanes(stage, std::move(list));
}

}  // namespace

PlanSet compile(Program program, const mesh::Mesh& mesh, const Recipe& recipe) {
  check_program(program);
  check_recipe(recipe);
  check_mesh(program, mesh, recipe);
  const GradientFlow flow = gradient_flow(program);
  check_training(program, flow);
  PlanSet plan{.program = std::move(program),
               .mesh = mesh,
               .recipe = recipe,
               .lists = {},
               .list_of_rank = {}};
  for (int stage = 0; stage < mesh.degree(Axis::kPp); ++stage)
    plan.lists.push_back(compile_stage({.program = plan.program,
                                        .mesh = plan.mesh,
                                        .recipe = plan.recipe,
                                        .flow = flow,
                                        .index = stage}));
  for (int rank = 0; rank < mesh.world(); ++rank)
    plan.list_of_rank.push_back(mesh.coordinate(rank, Axis::kPp));
  return plan;
}

}  // namespace trireme::plan
