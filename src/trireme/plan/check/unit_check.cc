#include <algorithm>

#include "trireme/plan/check/list_check.h"
#include "trireme/plan/coded_reduction.h"

namespace trireme::plan {

using mesh::Axis;
using mesh::AxisSet;

namespace {

// A step's first gather is among all shards, and brings the codes of later ones into the blocks of neighbours.
void check_codes(const ListView& view, int index, bool gathered) {
  const Instr& line = view.list[index];
  const Recipe& recipe = view.plan.recipe;
  if (line.coded != gathers_codes(recipe, view.program().units[line.unit]))
    view.refuse(index, "sends {}, the recipe has {}",
                line.coded ? "codes" : "parameters as they are",
                line.coded ? "none here" : "codes here");
  const bool kept = line.coded && gathered;
  if (const int within = kept ? recipe.gather->within : 0; line.within != within)
    view.refuse(index, "gathers within {}, needs {}: {}", line.within, within,
                kept ? "codes are kept since the first gather" : "no codes are kept");
}

}  // namespace

UnitCheck::UnitCheck(const ListView& view)
    : view_(view), row_(data_parallel_row(view.plan.recipe.zero)) {
  for (UnitId unit = 0; unit < static_cast<UnitId>(view.program().units.size()); ++unit) {
    const std::vector<int> stages = stages_of_unit(view.program(), unit);
    const UnitSharing sharing = view.sharing(unit);
    UnitState state{.sharing = sharing,
                    .held = contains(stages, view.stage),
                    .tied = stages.size() > 1,
                    .full = !sharing.gathers};
    for (NodeId user : gradient_users(view.program(), view.flow, unit, view.stage)) {
      const auto chunk = static_cast<std::size_t>(view.node(user).chunk);
      if (state.chunks.size() <= chunk) state.chunks.resize(chunk + 1);
      ++state.chunks[chunk].users;
      state.chunks[chunk].of_mb.resize(
          static_cast<std::size_t>(rounds(view.node(user), view.plan.recipe.micro_batches)));
      state.has_gradient = true;
    }
    units_.push_back(std::move(state));
  }
  // A step begins with what the one before has left.
  for (const Instr& line : view.list)
    if (line.unit >= 0 && line.unit < static_cast<UnitId>(units_.size())) {
      if (line.verb == Verb::kStep || line.verb == Verb::kEma || line.verb == Verb::kOuterStep)
        at(line.unit).stale = at(line.unit).sharing.gathers_after;
      if (line.verb == Verb::kUnshard) at(line.unit).stale = false;
    }
}

void UnitCheck::line(int index) {
  const Instr& line = view_.list[index];
  if (line.unit >= 0 && !at(line.unit).held)
    view_.refuse(index, "stage {} does not hold this unit", view_.stage);
  switch (line.verb) {
    case Verb::kForward:
    case Verb::kRecompute:
    case Verb::kBackward:
    case Verb::kBackwardInput:
    case Verb::kBackwardWeight: use(index, line); break;
    case Verb::kUnshard: unshard(index, line); break;
    case Verb::kReshard: reshard(index, line); break;
    case Verb::kReduceGrads: reduce(index, line); break;
    case Verb::kSyncTied: sync_tied(index, line); break;
    case Verb::kGradNorm: grad_norm(index); break;
    case Verb::kStep: step(index, line); break;
    case Verb::kEma: ema(index, line); break;
    case Verb::kOuterStep:  // OuterCheck knows when it may change the unit
      at(line.unit).updated = index;
      at(line.unit).stale = at(line.unit).sharing.gathers_after;
      break;
    default: break;
  }
}

void UnitCheck::use(int index, const Instr& line) {
  const Node& node = view_.node(line.node);
  if (grad_norm_ >= 0) view_.refuse(index, "follows grad_norm, which ends the gradients of a step");
  for (UnitId unit : node.units) {
    if (uses_parameters(node, line)) {
      const UnitState& state = at(unit);
      if (!state.full) view_.refuse(index, "unit {} is not gathered", unit_name(unit));
      if (state.stale)
        view_.refuse(index, "unit {} has been stepped on shards and not gathered since",
                     unit_name(unit));
      if (state.gathered >= 0)
        view_.require_before(state.gathered, index, "which gathers unit " + unit_name(unit));
    }
    if (adds_gradients(line) && view_.program().units[unit].trainable)
      add_gradient(index, line, unit);
  }
  if (line.verb == Verb::kForward && node.loss) losses_.push_back(index);
}

void UnitCheck::unshard(int index, const Instr& line) {
  UnitState& state = at(line.unit);
  const bool gathers = state.sharing.gathers;
  if (line.axes != state.sharing.shards || line.axes.empty())
    view_.refuse(index, "parameters of this recipe are not sharded over {}",
                 mesh::print(line.axes));
  if (gathers && state.full) view_.refuse(index, "is gathered since line {}", state.gathered);
  check_codes(view_, index, gathers && state.gathered >= 0);
  if (!gathers && !state.stale) view_.refuse(index, "its parameters are full and have not changed");
  // Without this the dp lane could run ahead of the memory account.
  if (gathers && last_reshard_ >= 0)
    view_.require_before(last_reshard_, index, "whose memory it takes");
  if (state.updated >= 0) view_.require_before(state.updated, index, "which updates the unit");
  state.full = true;
  state.stale = false;
  state.gathered = index;
}

void UnitCheck::reshard(int index, const Instr& line) {
  UnitState& state = at(line.unit);
  last_reshard_ = index;
  const bool gathers = state.sharing.gathers;
  if (!gathers && view_.plan.recipe.offload.params != Tier::kNone)
    return;  // OffloadCheck knows what was brought
  if (!gathers) view_.refuse(index, "parameters of this recipe stay full");
  if (!state.full) view_.refuse(index, "is not gathered");
  view_.require_before(state.gathered, index, "which gathers it");
  state.full = false;
}

// One buffer a chunk takes the gradient of one micro-batch, and sums are a tree over ascending ones.
void UnitCheck::add_gradient(int index, const Instr& line, UnitId unit) {
  UnitState& state = at(unit);
  ChunkGradient& chunk = state.chunks[view_.node(line.node).chunk];
  Gradient& gradient = chunk.of_mb[line.mb];
  if (chunk.all_reduced || gradient.parts_added || gradient.scattered >= 0)
    view_.refuse(index, "adds to the gradient of unit {} after line {} has reduced it",
                 unit_name(unit), state.reduced);
  if (line.mb != chunk.next_mb)
    view_.refuse(index, "the gradient of unit {} holds micro-batch {}", unit_name(unit),
                 chunk.next_mb);
  if (line.mb > 0 && state.sharing.scatters_each &&
      chunk.of_mb[static_cast<std::size_t>(line.mb) - 1].scattered < 0)
    view_.refuse(index, "micro-batch {} of unit {} has not been reduced", line.mb - 1,
                 unit_name(unit));
  if (state.reduced >= 0)
    view_.require_before(state.reduced, index,
                         "which reads the gradient of unit " + unit_name(unit));
  // Without this full gradients of many units could wait for the dp lane.
  if (scatters_.size() >= 2)
    view_.require_before(scatters_[scatters_.size() - 2], index, "whose memory it takes");
  if (++gradient.parts == chunk.users) ++chunk.next_mb;
  state.added = index;
}

UnitCheck::ChunkGradient& UnitCheck::reduced_chunk(int index, const Instr& line,
                                                   UnitState& state) const {
  const auto number = static_cast<std::size_t>(line.chunk);
  if (number >= state.chunks.size() || state.chunks[number].users == 0)
    view_.refuse(index, "the unit has no gradient in chunk {}", line.chunk);
  return state.chunks[number];
}

template <typename Visit>
void UnitCheck::for_gradients(int index, const Instr& line, UnitState& state, Visit visit) {
  ChunkGradient& chunk = reduced_chunk(index, line, state);
  const auto count = static_cast<int>(chunk.of_mb.size());
  if (line.mb >= count) view_.refuse(index, "the unit has {} gradient(s) a step", count);
  for (int mb = std::max(line.mb, 0); mb < (line.mb < 0 ? count : line.mb + 1); ++mb)
    visit(chunk, mb, chunk.of_mb[mb]);
}

void UnitCheck::require_complete(int index, const ChunkGradient& chunk, int mb) const {
  const int parts = chunk.of_mb[mb].parts;
  if (parts != chunk.users)
    view_.refuse(index, "the gradient of micro-batch {} has {} of {} parts", mb, parts,
                 chunk.users);
}

void UnitCheck::scatter(int index, const Instr& line, UnitState& state) {
  const mesh::AxisSet shards = state.sharing.shards;
  if (shards.empty()) view_.refuse(index, "gradients of this recipe are not sharded");
  if (line.axes != shards)
    view_.refuse(index, "scatters over {}, needs {}", mesh::print(line.axes), mesh::print(shards));
  if ((line.mb >= 0) != row_.reduce_each_mb)
    view_.refuse(index, "ZeRO-{} reduces {}", view_.plan.recipe.zero,
                 row_.reduce_each_mb ? "every micro-batch" : "once, after the last micro-batch");
  const bool partial = view_.program().units[line.unit].tp_partial > 0;
  for_gradients(index, line, state, [&](ChunkGradient& chunk, int mb, Gradient& gradient) {
    if (gradient.scattered >= 0)
      view_.refuse(index, "micro-batch {} is reduced since line {}", mb, gradient.scattered);
    require_complete(index, chunk, mb);
    if (partial && !gradient.parts_added)
      view_.refuse(index, "the gradient of micro-batch {} is not added over tp", mb);
    gradient.scattered = index;
  });
  if (line.mb >= 0) scatters_.push_back(index);
}

// Parts of gradients that tp ranks share: before anything is added over other axes.
void UnitCheck::add_parts(int index, const Instr& line, UnitState& state) {
  const mesh::AxisSet rest = state.sharing.rest;
  if (reduced_chunk(index, line, state).all_reduced)
    view_.refuse(index, "follows the reduction over {}", print(rest));
  if (view_.program().units[line.unit].tp_partial == 0)
    view_.refuse(index, "the unit has no partial gradients");
  if ((line.mb >= 0) != state.sharing.scatters_each)
    view_.refuse(index, "ZeRO-{} adds parts {}", view_.plan.recipe.zero,
                 line.mb >= 0 ? "once, after the last micro-batch" : "every micro-batch");
  for_gradients(index, line, state, [&](ChunkGradient& chunk, int mb, Gradient& gradient) {
    require_complete(index, chunk, mb);
    if (gradient.parts_added) view_.refuse(index, "micro-batch {} is added over tp already", mb);
    gradient.parts_added = true;
  });
}

void UnitCheck::reduce(int index, const Instr& line) {
  UnitState& state = at(line.unit);
  if (!state.has_gradient) view_.refuse(index, "the unit has no gradient");
  if (grad_norm_ >= 0) view_.refuse(index, "follows grad_norm");
  if (state.added >= 0) view_.require_before(state.added, index, "which adds to the gradient");
  if (line.coded != is_coded(state.sharing, line))
    view_.refuse(index, "sends {}, the recipe has {}", line.coded ? "codes" : "sums as they are",
                 line.coded ? "none here" : "codes here");
  if (const int within = within_of(view_.plan.mesh, view_.plan.recipe, line); line.within != within)
    view_.refuse(index, "codes sums within {}, needs {}", line.within, within);
  if (line.residual != (line.coded && view_.plan.recipe.coded->residual))
    view_.refuse(index, "{}",
                 line.residual ? "adds residuals, the recipe has none here"
                               : "leaves out the residuals of the step before");
  switch (reduction_of(view_.program(), line)) {
    case Reduction::kScatter: scatter(index, line, state); break;
    case Reduction::kParts: add_parts(index, line, state); break;
    case Reduction::kAllReduce: all_reduce(index, line, state); break;
    case Reduction::kTied:
    case Reduction::kNone: break;
  }
  state.reduced = index;
}

void UnitCheck::all_reduce(int index, const Instr& line, UnitState& state) {
  const mesh::AxisSet rest = state.sharing.rest;
  if (line.axes != rest || line.mb >= 0)
    view_.refuse(index, "needs over={} once a step", mesh::print(rest));
  ChunkGradient& chunk = reduced_chunk(index, line, state);
  if (chunk.all_reduced) view_.refuse(index, "is reduced over {} already", mesh::print(line.axes));
  require_scattered(index, line.unit, chunk);
  chunk.all_reduced = true;
}

// Every micro-batch of the chunk is complete, added over tp and scattered, where it has to be.
void UnitCheck::require_scattered(int index, UnitId unit, const ChunkGradient& chunk) const {
  const bool partial = view_.program().units[unit].tp_partial > 0;
  const mesh::AxisSet shards = at(unit).sharing.shards;
  for (int mb = 0; mb < static_cast<int>(chunk.of_mb.size()); ++mb) {
    const Gradient& gradient = chunk.of_mb[mb];
    if (gradient.parts != chunk.users)
      view_.refuse(index, "the gradient of unit {} lacks micro-batch {}", unit_name(unit), mb);
    if (partial && !gradient.parts_added)
      view_.refuse(index, "the gradient of unit {} is not added over tp for micro-batch {}",
                   unit_name(unit), mb);
    if (!shards.empty() && gradient.scattered < 0)
      view_.refuse(index, "the gradient of unit {} is not reduced over {} for micro-batch {}",
                   unit_name(unit), mesh::print(shards), mb);
  }
}

void UnitCheck::require_reduced(int index, UnitId unit) const {
  const UnitState& state = at(unit);
  for (const ChunkGradient& chunk : state.chunks) {
    require_scattered(index, unit, chunk);
    if (!state.sharing.rest.empty() && chunk.users > 0 && !chunk.all_reduced)
      view_.refuse(index, "the gradient of unit {} is not reduced over {}", unit_name(unit),
                   mesh::print(state.sharing.rest));
  }
  if (state.added >= 0)
    view_.require_before(state.added, index,
                         "which adds to the gradient of unit " + unit_name(unit));
  if (state.reduced >= 0)
    view_.require_before(state.reduced, index, "which reduces unit " + unit_name(unit));
}

void UnitCheck::sync_tied(int index, const Instr& line) {
  UnitState& state = at(line.unit);
  if (!state.tied || !state.has_gradient) view_.refuse(index, "the unit lives on one stage");
  if (line.axes != AxisSet(Axis::kPp)) view_.refuse(index, "needs over=pp");
  if (state.synced) view_.refuse(index, "happens a second time");
  require_reduced(index, line.unit);
  state.synced = true;
  state.reduced = index;
}

void UnitCheck::grad_norm(int index) {
  if (grad_norm_ >= 0) view_.refuse(index, "happens a second time");
  for (int loss : losses_) view_.require_before(loss, index, "which makes a loss");
  for (UnitId unit : units_of_stage(view_.program(), view_.stage)) {
    if (!view_.program().units[unit].trainable) continue;
    require_reduced(index, unit);
    if (at(unit).tied && !at(unit).synced)
      view_.refuse(index, "tied unit {} is not added over its stages", unit_name(unit));
  }
  grad_norm_ = index;
}

void UnitCheck::step(int index, const Instr& line) {
  UnitState& state = at(line.unit);
  if (!view_.program().units[line.unit].trainable) view_.refuse(index, "the unit is frozen");
  if (grad_norm_ < 0) view_.refuse(index, "comes before grad_norm");
  if (state.updated >= 0) view_.refuse(index, "happens a second time");
  view_.require_before(grad_norm_, index, "which decides the clip factor");
  if (line.residual != has_residual(view_.plan.recipe, view_.program().units[line.unit]))
    view_.refuse(index, "{}",
                 line.residual ? "keeps residuals, the recipe has none here"
                               : "loses the residuals of this step");
  state.updated = index;
  state.stale = state.sharing.gathers_after;
}

void UnitCheck::ema(int index, const Instr& line) {
  const UnitId followed = view_.program().units[line.unit].ema_of;
  if (followed < 0) view_.refuse(index, "the unit follows no other");
  if (at(followed).updated < 0)
    view_.refuse(index, "comes before the step of {}", unit_name(followed));
  UnitState& state = at(line.unit);
  if (state.updated >= 0) view_.refuse(index, "happens a second time");
  view_.require_before(at(followed).updated, index, "which steps " + unit_name(followed));
  state.updated = index;
  state.stale = state.sharing.gathers_after;
}

void UnitCheck::finish() {
  if (grad_norm_ < 0) view_.refuse(-1, "grad_norm is missing");
  for (UnitId unit : units_of_stage(view_.program(), view_.stage)) {
    const Unit& one = view_.program().units[unit];
    const UnitState& state = at(unit);
    if (one.trainable && state.updated < 0) view_.refuse(-1, "step {} is missing", one.name);
    if (one.ema_of >= 0 && state.updated < 0) view_.refuse(-1, "ema {} is missing", one.name);
    if (state.stale && state.gathered < 0)
      view_.refuse(-1, "unit {} is stepped on shards and never gathered again", one.name);
    if (state.sharing.gathers && state.full) view_.refuse(-1, "unit {} is left gathered", one.name);
  }
}

}  // namespace trireme::plan
