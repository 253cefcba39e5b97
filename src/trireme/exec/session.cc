#include "trireme/exec/session.h"

#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/forward_only.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::exec {
namespace {

void compare_digests(comm::World& world, const plan::PlanSet& plan) {
  const std::vector<std::string> digests = world.exchange(hex64(plan::digest(plan)));
  std::string differing;
  for (std::size_t rank = 0; rank < digests.size(); ++rank)
    if (digests[rank] != digests[0])
      differing += fmt::format("{} {}", differing.empty() ? "" : ",", rank);
  if (!differing.empty())
    fail(ErrorKind::kUsage,
         "ranks{} compiled another plan than rank 0: start every rank with the same job, layout "
         "and build",
         differing);
}

}  // namespace

plan::PlanSet compile_checked(const plan::Program& program, const SessionSetup& setup) {
  plan::PlanSet plan = setup.grid ? plan::compile(program, setup.mesh, setup.recipe, *setup.grid)
                                  : plan::compile(program, setup.mesh, setup.recipe);
  plan::validate(plan);
  plan::check_activations_leave(plan);
  return plan;
}

Session::Session(Model model, const SessionSetup& setup, comm::World& world, Optimizer& optimizer)
    : setup_(setup),
      rank_(world.rank()),
      flight_(world.flight()),
      model_(std::move(model)),
      plan_(compile_checked(model_.spec.program, setup)),
      evaluation_plan_(compile_checked(plan::forward_only(model_.spec.program), setup)),
      space_(plan_, world.rank(), setup.scratch),
      units_(plan_, model_.spec.units, world.rank(), setup.device, groups_, space_, optimizer),
      groups_((compare_digests(world, plan_), world), plan_),
      executor_(plan_, world.rank(), model_, units_, groups_, space_, setup.seed, flight_),
      evaluator_(evaluation_plan_, world.rank(), model_, units_, groups_, space_, setup.seed,
                 flight_) {
  // Where each parameter's initial value comes from: the first block that binds it.
  std::vector<std::vector<std::pair<const Block*, std::size_t>>> sources;
  for (const model::UnitSpec& unit : model_.spec.units) sources.emplace_back(unit.params.size());
  const int stage = setup.mesh.coordinate(world.rank(), mesh::Axis::kPp);
  for (std::size_t node = 0; node < model_.blocks.size(); ++node) {
    if (model_.spec.program.nodes[node].stage != stage) continue;
    const std::vector<model::ParamRef>& refs = model_.spec.node_params[node];
    std::vector<at::Tensor> params;
    for (std::size_t i = 0; i < refs.size(); ++i) {
      params.push_back(units_.param(refs[i].unit, refs[i].param));
      auto& source = sources[refs[i].unit][refs[i].param];
      if (source.first == nullptr) source = {model_.blocks[node].get(), i};
    }
    model_.blocks[node]->bind(std::move(params));
  }
  units_.initialise(setup.seed, [&](plan::UnitId unit, int param) {
    const auto& [block, index] = sources[unit][param];
    return block == nullptr ? at::Tensor() : block->initial_value(index);
  });
}

// The plan follows from that of the other steps, which ranks have compared, and from the step. Where sums are not coded,
// ranks exchange in the groups of those that are.
Session::StepKind Session::list_of(const plan::OuterWork& outer, bool uncoded) {
  const bool merges = outer != plan::OuterWork();
  if (!merges && !uncoded) return {.plan = plan_, .executor = executor_};
  SessionSetup other = setup_;
  TRIREME_CHECK(!merges || other.recipe.outer, "a recipe without islands has nothing to merge");
  if (merges) other.recipe.outer->work = outer;
  if (uncoded) other.recipe.coded.reset();
  for (const auto& kind : other_kinds_)
    if (kind->recipe == other.recipe) return {.plan = kind->plan, .executor = *kind->executor};
  OtherKind& kind = *other_kinds_.emplace_back(std::make_unique<OtherKind>());
  kind.recipe = other.recipe;
  kind.plan = compile_checked(model_.spec.program, other);
  kind.executor.emplace(kind.plan, rank_, model_, units_, groups_, space_, setup_.seed, flight_);
  return {.plan = kind.plan, .executor = *kind.executor};
}

}  // namespace trireme::exec
