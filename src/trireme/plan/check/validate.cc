#include "trireme/plan/check/validate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "trireme/plan/check/list_check.h"
#include "trireme/plan/check/matrix_check.h"
#include "trireme/plan/check/offload_check.h"
#include "trireme/plan/check/outer_check.h"
#include "trireme/plan/check/recipe_check.h"
#include "trireme/plan/coded_gather.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/verbs.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

// The fields that this line must have. Of what its verb may have, the flags and the chunk are checked apart.
FieldSet fields_of(const Instr& line, const Recipe& recipe) {
  const FieldSet needs = info(line.verb).needs;
  const FieldSet of_micro_batch = line.mb >= 0 ? FieldSet(Field::kMb) : FieldSet();
  if (line.verb == Verb::kReduceGrads) return needs | of_micro_batch;
  if (subject_of(line.verb) != Subject::kMoved) return needs;
  if (line.tensors == TensorKind::kNone)
    return Field::kValue | Field::kMb |
           (recipe.offload.activations == Tier::kTp ? FieldSet(Field::kAxes) : FieldSet());
  return Field::kUnit | (line.tensors == TensorKind::kGrads ? of_micro_batch : FieldSet());
}

// Whether the line carries a flag that no line of its verb has.
bool has_foreign_flag(const Instr& line) {
  const FieldSet may = info(line.verb).may;
  return (line.keep && !may.contains(Field::kKeep)) ||
         (line.scatter && !may.contains(Field::kScatter)) ||
         (line.coded && !may.contains(Field::kCoded)) ||
         (line.within != 0 && !may.contains(Field::kWithin)) ||
         (line.residual && !may.contains(Field::kResidual)) ||
         (line.gradient && !may.contains(Field::kGradient)) ||
         (line.tensors != TensorKind::kNone && !may.contains(Field::kTensors));
}

void check_after(const ListView& view, int index) {
  const Instr& line = view.list[index];
  int previous = -1;
  for (int earlier : line.after) {
    if (earlier <= previous || earlier >= index)
      view.refuse(index, "after={} is not an ascending list of earlier lines", earlier);
    if (line.verb != Verb::kSend && queue_of(view.list[earlier]) == queue_of(line))
      view.refuse(index, "after={} names its own queue, which is in order", earlier);
    previous = earlier;
  }
}

// Every rank has a list, and every list belongs to one stage.
void check_ranks(const PlanSet& plan) {
  const std::string& name = plan.program.name;
  if (plan.list_of_rank.size() != static_cast<std::size_t>(plan.mesh.world()))
    fail(ErrorKind::kInternal, "plan {}: {} ranks have lists, the world has {}", name,
         plan.list_of_rank.size(), plan.mesh.world());
  if (plan.mesh.degree(Axis::kPp) != stage_count(plan.program))
    fail(ErrorKind::kInternal, "plan {}: pp {} for {} stages", name, plan.mesh.degree(Axis::kPp),
         stage_count(plan.program));
  for (std::size_t list = 0; list < plan.lists.size(); ++list)
    if (plan.lists[list].size() < static_cast<std::size_t>(plan.recipe.micro_batches))
      fail(ErrorKind::kInternal, "plan {}: list {} has {} lines for {} micro-batches", name, list,
           plan.lists[list].size(), plan.recipe.micro_batches);
  std::vector<int> stage_of(plan.lists.size(), -1);
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    const int list = plan.list_of_rank[rank];
    if (list < 0 || list >= static_cast<int>(plan.lists.size()))
      fail(ErrorKind::kInternal, "plan {}, rank {}: list {} of {}", name, rank, list,
           plan.lists.size());
    int& stage = stage_of[list];
    const int mine = plan.mesh.coordinate(rank, Axis::kPp);
    if (stage >= 0 && stage != mine)
      fail(ErrorKind::kInternal, "plan {}, rank {}: list {} belongs to stage {}, not {}", name,
           rank, list, stage, mine);
    stage = mine;
  }
  for (std::size_t list = 0; list < stage_of.size(); ++list)
    if (stage_of[list] < 0) fail(ErrorKind::kInternal, "plan {}: no rank runs list {}", name, list);
}

ListView view_of(const PlanSet& plan, const GradientFlow& flow, int list, bool drawn = true) {
  const int rank =
      static_cast<int>(std::ranges::find(plan.list_of_rank, list) - plan.list_of_rank.begin());
  return {.plan = plan,
          .flow = flow,
          .list = plan.lists[list],
          .rank = rank,
          .stage = plan.mesh.coordinate(rank, Axis::kPp),
          .order = {},
          .drawn = drawn};
}

void check_list(const PlanSet& plan, const GradientFlow& flow, int list) {
  ListView view = view_of(plan, flow, list);
  view.order = LaneOrder(view.list);
  FlowCheck values(view);
  UnitCheck units(view);
  OffloadCheck moves(view);
  OuterCheck outer(view);
  MatrixCheck matrices(view);
  for (int index = 0; index < static_cast<int>(view.list.size()); ++index) {
    values.line(index);
    units.line(index);
    moves.line(index);
    outer.line(index);
    matrices.line(index);
  }
  values.finish();
  units.finish();
  moves.finish();
  outer.finish();
}

// The number of waiting sends is bounded. Runs after the rendezvous, which says more about a missing send.
void check_unsent(const ListView& view) {
  const auto most = static_cast<std::size_t>(view.plan.recipe.unsent);
  std::map<std::tuple<int, ValueId, bool>, std::vector<int>> sends;
  for (int index = 0; index < static_cast<int>(view.list.size()); ++index) {
    const Instr& line = view.list[index];
    if (line.verb != Verb::kSend) continue;
    std::vector<int>& earlier = sends[{line.peer, line.value, line.gradient}];
    if (earlier.size() >= most && !contains(line.after, earlier[earlier.size() - most]))
      view.refuse(index,
                  "does not wait for line {}, so that {} micro-batches could wait to be sent",
                  earlier[earlier.size() - most], most + 1);
    earlier.push_back(index);
  }
}

}  // namespace

void check_fields(const ListView& view) {
  const Program& program = view.program();
  const auto in = [](int id, std::size_t count) { return id >= 0 && id < static_cast<int>(count); };
  for (int index = 0; index < static_cast<int>(view.list.size()); ++index) {
    const Instr& line = view.list[index];
    const FieldSet fields = fields_of(line, view.plan.recipe);
    const auto has = [&](Field field) { return fields.contains(field); };
    if (has(Field::kNode) ? !in(line.node, program.nodes.size()) : line.node != -1)
      view.refuse(index, "node {}", line.node);
    if (has(Field::kUnit) ? !in(line.unit, program.units.size()) : line.unit != -1)
      view.refuse(index, "unit {}", line.unit);
    if (has(Field::kValue) ? !in(line.value, program.values.size()) : line.value != -1)
      view.refuse(index, "value {}", line.value);
    const int all = view.plan.recipe.micro_batches;
    const int count = has(Field::kNode) ? rounds(view.node(line.node), all) : all;
    if (has(Field::kMb) ? line.mb < 0 || line.mb >= count : line.mb != -1)
      view.refuse(index, "micro-batch {} of {}", line.mb, count);
    const int stages = view.plan.mesh.degree(Axis::kPp);
    if (has(Field::kPeer) ? line.peer < 0 || line.peer >= stages || line.peer == view.stage
                          : line.peer != -1)
      view.refuse(index, "peer {} of {} stages", line.peer, stages);
    const bool one_of_chunks =
        line.verb == Verb::kReduceGrads || (line.tensors == TensorKind::kGrads && line.mb >= 0);
    if (line.chunk < 0 || (line.chunk > 0 && !one_of_chunks))
      view.refuse(index, "chunk {}", line.chunk);
    if (has(Field::kAxes) == line.axes.empty())
      view.refuse(index, "over={}", mesh::print(line.axes));
    if (has(Field::kNode) && view.node(line.node).stage != view.stage)
      view.refuse(index, "the node runs on stage {}, this is stage {}", view.node(line.node).stage,
                  view.stage);
    if (has_foreign_flag(line)) view.refuse(index, "carries a flag that is not its own");
    if (line.lane != lane_of(line, view.stage))
      view.refuse(index, "is on lane {}, needs {}", name(line.lane),
                  name(lane_of(line, view.stage)));
    check_after(view, index);
  }
}

void validate(const PlanSet& plan) {
  check_program(plan.program);
  if (const auto mistake = mistake_in(plan.recipe))
    fail(ErrorKind::kInternal, "plan {}: {}", plan.program.name, *mistake);
  for (const auto& mistake :
       {mistake_in_coded(plan.mesh, plan.recipe), mistake_in_gather(plan.mesh, plan.recipe),
        mistake_in_outer(plan.mesh, plan.recipe)})
    if (mistake) fail(ErrorKind::kInternal, "plan {}: {}", plan.program.name, *mistake);
  check_ranks(plan);
  check_owners(plan);
  const GradientFlow flow = gradient_flow(plan.program);
  for (int list = 0; list < static_cast<int>(plan.lists.size()); ++list)
    check_fields(view_of(plan, flow, list, /*drawn=*/false));
  for (int list = 0; list < static_cast<int>(plan.lists.size()); ++list)
    check_list(plan, flow, list);
  check_rendezvous(plan);
  for (int list = 0; list < static_cast<int>(plan.lists.size()); ++list)
    check_unsent(view_of(plan, flow, list));
}

}  // namespace trireme::plan
