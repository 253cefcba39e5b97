#include "trireme/plan/check/offload_check.h"

#include <algorithm>

#include "trireme/plan/unit_types.h"

namespace trireme::plan {

using mesh::Axis;

OffloadCheck::OffloadCheck(const ListView& view) : view_(view) {
  const Away away(view.program(), view.plan.recipe);
  for (UnitId unit = 0; unit < static_cast<UnitId>(view.program().units.size()); ++unit) {
    UnitState state{.sharing = view.sharing(unit)};
    state.states.away = away(unit, TensorKind::kStates);
    state.params.away = away(unit, TensorKind::kParams);
    state.grad.away = away(unit, TensorKind::kGrads);
    for (NodeId user : gradient_users(view.program(), view.flow, unit, view.stage)) {
      Sums& sums = state.grad.chunks[view.node(user).chunk];
      ++sums.users;
      sums.rounds = rounds(view.node(user), view.plan.recipe.micro_batches);
      sums.counter = BinaryCounter(summed_in_row(view.plan.recipe));
    }
    units_.push_back(std::move(state));
  }
  for (int i = 0; i < static_cast<int>(view.list.size()); ++i)
    if (computes(view.list[i])) last_compute_ = i;
}

void OffloadCheck::line(int index) {
  const Instr& line = view_.list[index];
  if (takes_memory(line)) require_room(index);
  if (computes(line)) compute(index, line);
  switch (line.verb) {
    case Verb::kUnshard:
      if (!at(line.unit).params.away) break;
      require_here(index, line.unit, at(line.unit).params, "parameters");
      if (at(line.unit).params.changed >= 0) at(line.unit).params.changed = index;
      break;
    case Verb::kReshard: {
      last_reshard_ = index;
      Held& params = at(line.unit).params;
      if (!params.away) break;
      require_here(index, line.unit, params, "parameters");
      params.brought = -1;
      break;
    }
    case Verb::kSend:
      if (!line.gradient && values_away_.contains({line.value, line.mb}))
        view_.refuse(index, "the value is away");
      break;
    case Verb::kReduceGrads:
    case Verb::kSyncTied: reduce(index, line); break;
    case Verb::kGradNorm:
      for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit)
        if (at(unit).grad.away && !at(unit).grad.chunks.empty() && !at(unit).grad.summed)
          view_.refuse(index, "the gradient of unit {} has not left", unit_name(unit));
      break;
    case Verb::kExchangeUpdate:
      if (!line.scatter) direct(index, line.unit);
      break;
    case Verb::kUpdateMatrices:
      if (at(line.unit).sharing.shards.empty()) direct(index, line.unit);
      break;
    case Verb::kStep: step(index, line); break;
    case Verb::kReload:
    case Verb::kOffload:
      if (line.value >= 0)
        move_value(index, line);
      else if (line.verb == Verb::kReload)
        reload(index, line);
      else
        offload(index, line);
      break;
    default: break;
  }
}

void OffloadCheck::require_here(int index, UnitId unit, const Held& held, const char* what) const {
  if (held.brought < 0) view_.refuse(index, "{} of unit {} are away", what, unit_name(unit));
  if (held.brought != index)
    view_.require_before(held.brought, index, fmt::format("which brings {} of it", what));
}

// All but what left last has left when memory is taken.
void OffloadCheck::require_room(int index) const {
  if (leaving_.empty()) return;
  const auto at = [&](int line) -> const Instr& { return view_.list[line]; };
  for (std::size_t i = leaving_.size(); i-- > 0;)
    if (!same_subject(at(leaving_[i]), at(leaving_.back())))
      return view_.require_before(leaving_[i], index, "which gives its memory back");
}

void OffloadCheck::compute(int index, const Instr& line) {
  const Node& node = view_.node(line.node);
  if (reads_values(line)) {
    if (uses_parameters(node, line))
      for (UnitId unit : node.units)
        if (at(unit).params.away && !at(unit).sharing.gathers)
          require_here(index, unit, at(unit).params, "parameters");
    for (ValueId value : node.reads)
      for (int mb : batches(node, line.mb, view_.plan.recipe.micro_batches)) {
        if (values_away_.contains({value, mb}))
          view_.refuse(index, "{} of micro-batch {} is away", view_.program().values[value].name,
                       mb);
        const auto back = values_back_.find({value, mb});
        if (back != values_back_.end())
          view_.require_before(back->second, index, "which brings what it reads");
        values_read_[{value, mb}] = index;
      }
  }
  if (!adds_gradients(line)) return;
  for (UnitId unit : node.units)
    if (at(unit).grad.away) add(index, unit, node.chunk);
}

void OffloadCheck::add(int index, UnitId unit, int chunk) {
  Sums& sums = at(unit).grad.chunks[chunk];
  at(unit).grad.made = index;
  if (++sums.parts < sums.users) return;
  sums.parts = 0;
  if (!at(unit).sharing.scatters_each) push(index, unit, chunk);
}

// The sum of a micro-batch meets those before it as in a binary counter.
void OffloadCheck::push(int index, UnitId unit, int chunk) {
  Gradient& grad = at(unit).grad;
  Sums& sums = grad.chunks[chunk];
  if (!sums.counter.meets_here())
    view_.refuse(index, "sums of unit {} that micro-batch {} is added to are away", unit_name(unit),
                 sums.counter.pushed());
  if (grad.brought >= 0)
    view_.require_before(grad.brought, index, "which brings sums of unit " + unit_name(unit));
  sums.counter.push();
}

void OffloadCheck::reduce(int index, const Instr& line) {
  Gradient& grad = at(line.unit).grad;
  if (!grad.away) return;
  if (grad.summed) view_.refuse(index, "the gradient is away");
  if (line.scatter && line.mb >= 0)
    push(index, line.unit, line.chunk);
  else if (line.mb < 0)
    collapse(index, line.unit);
  grad.made = index;
}

void OffloadCheck::collapse(int index, UnitId unit) {
  const Gradient& grad = at(unit).grad;
  for (const auto& [chunk, sums] : grad.chunks)
    if (sums.counter.away() != 0) view_.refuse(index, "sums of unit {} are away", unit_name(unit));
  if (grad.brought >= 0)
    view_.require_before(grad.brought, index, "which brings sums of unit " + unit_name(unit));
}

// The direction of an update by matrix comes from its gradient and states.
void OffloadCheck::direct(int index, UnitId unit) {
  const UnitState& state = at(unit);
  if (state.states.away) require_here(index, unit, state.states, "states");
  if (!state.grad.away) return;
  if (!state.grad.there) view_.refuse(index, "its gradient is away");
  view_.require_before(state.grad.brought, index, "which brings its gradient");
}

void OffloadCheck::step(int index, const Instr& line) {
  UnitState& state = at(line.unit);
  if (state.states.away) require_here(index, line.unit, state.states, "states");
  const bool made_anew = has_master_copy(view_.plan.recipe, view_.plan.program.units[line.unit]);
  if (state.params.away && !made_anew) require_here(index, line.unit, state.params, "parameters");
  if (state.params.away && made_anew) {
    if (state.params.brought >= 0)
      view_.refuse(index, "its parameters are in memory since line {}", state.params.brought);
    state.params.brought = index;
  }
  state.states.changed = state.params.changed = index;
  if (!state.grad.away) return;
  if (!state.grad.there) view_.refuse(index, "its gradient is away");
  view_.require_before(state.grad.brought, index, "which brings its gradient");
}

void OffloadCheck::move_value(int index, const Instr& line) {
  const Value& value = view_.program().values[line.value];
  const Tier tier = view_.plan.recipe.offload.activations;
  if (tier == Tier::kNone) view_.refuse(index, "values of this recipe stay in memory");
  if (tier == Tier::kTp && (!value.whole || line.axes != mesh::AxisSet(Axis::kTp)))
    view_.refuse(index, "{} is not what all tp ranks have", value.name);
  const std::pair of_mb{line.value, line.mb};
  const auto away = values_away_.find(of_mb);
  if (line.verb == Verb::kReload) {
    if (away == values_away_.end()) view_.refuse(index, "the value is not away");
    view_.require_before(away->second, index, "which sends it away");
    values_away_.erase(away);
    values_back_[of_mb] = index;
    return;
  }
  if (away != values_away_.end() || values_back_.contains(of_mb))
    view_.refuse(index, "leaves a second time");
  const auto read = values_read_.find(of_mb);
  if (read == values_read_.end()) view_.refuse(index, "leaves before it is read");
  view_.require_before(read->second, index, "which reads it");
  values_away_[of_mb] = index;
  if (line.lane == Lane::kD2h) leaving_.push_back(index);
}

void OffloadCheck::reload(int index, const Instr& line) {
  if (line.tensors == TensorKind::kGrads) return reload_grads(index, line);
  Held& held = this->held(line);
  if (!held.away) view_.refuse(index, "the unit's {} stay in memory", name(line.tensors));
  if (held.brought >= 0) view_.refuse(index, "is in memory since line {}", held.brought);
  if (held.changed >= 0) view_.refuse(index, "has been stepped");
  if (line.tensors == TensorKind::kParams && last_reshard_ >= 0)
    view_.require_before(last_reshard_, index, "whose memory it takes");
  held.brought = index;
  stage(index);
}

void OffloadCheck::offload(int index, const Instr& line) {
  if (line.tensors == TensorKind::kGrads) return offload_grads(index, line);
  Held& held = this->held(line);
  if (!held.away) view_.refuse(index, "the unit's {} stay in memory", name(line.tensors));
  if (held.brought < 0 || held.changed < 0) view_.refuse(index, "has not changed in memory");
  view_.require_before(held.changed, index, "which changes it");
  const bool stale =
      at(line.unit).sharing.gathers_after && view_.list[held.changed].verb != Verb::kUnshard;
  if (line.tensors == TensorKind::kParams && stale)
    view_.refuse(index, "leaves before it is gathered after its step");
  held.brought = -1;
  held.saved = true;
  leaving_.push_back(index);
}

void OffloadCheck::reload_grads(int index, const Instr& line) {
  Gradient& grad = at(line.unit).grad;
  if (!grad.away || grad.chunks.empty()) view_.refuse(index, "the unit's gradient stays in memory");
  if (grad.left < 0) view_.refuse(index, "the unit's gradient has not left");
  view_.require_before(grad.left, index, "which sends it away");
  int rest = 0;  // gradients of micro-batches that are to come
  for (const auto& [chunk, sums] : grad.chunks) rest += sums.rounds - sums.counter.pushed();
  if (!grad.summed && (line.mb < 0) != (rest == 1))
    view_.refuse(
        index, "the last gradient of a step, and no other, brings all sums; {} are to come", rest);
  if (line.mb >= 0) {
    if (!grad.chunks.contains(line.chunk)) view_.refuse(index, "chunk {}", line.chunk);
    Sums& sums = grad.chunks[line.chunk];
    BinaryCounter& counter = sums.counter;
    if (line.mb != counter.pushed() || counter.met() == 0)
      view_.refuse(index, "micro-batch {} meets no sums here", line.mb);
    if (!counter.meets_away() || counter.in_memory() > 0)
      view_.refuse(index, "sums of unit {} are in memory", unit_name(line.unit));
    counter.bring_met();
  } else if (!grad.summed) {
    int brought = 0;
    for (auto& [chunk, sums] : grad.chunks) {
      if (sums.counter.in_memory() > 0)
        view_.refuse(index, "sums of unit {} are in memory", unit_name(line.unit));
      brought += sums.counter.bring_all();
    }
    if (brought == 0) view_.refuse(index, "no sums are away");
  } else {
    if (grad.there) view_.refuse(index, "is in memory since line {}", grad.brought);
    grad.there = true;
    stage(index);
  }
  grad.brought = index;
}

void OffloadCheck::offload_grads(int index, const Instr& line) {
  Gradient& grad = at(line.unit).grad;
  if (!grad.away || grad.chunks.empty()) view_.refuse(index, "the unit's gradient stays in memory");
  if (grad.summed) view_.refuse(index, "the gradient has left since line {}", grad.left);
  if (grad.made < 0) view_.refuse(index, "the unit has no gradient yet");
  view_.require_before(grad.made, index, "which makes it");
  if (line.mb >= 0) {
    if (!grad.chunks.contains(line.chunk)) view_.refuse(index, "chunk {}", line.chunk);
    Sums& sums = grad.chunks[line.chunk];
    if (line.mb + 1 != sums.counter.pushed() || sums.counter.in_memory() == 0)
      view_.refuse(index, "micro-batch {} has left no sum here", line.mb);
    sums.counter.leave();
  } else {
    for (const auto& [chunk, sums] : grad.chunks)
      if (sums.counter.pushed() != sums.rounds)
        view_.refuse(index, "the gradient lacks micro-batch {}", sums.counter.pushed());
    collapse(index, line.unit);
    grad.summed = true;
    grad.there = false;
  }
  grad.left = index;
  leaving_.push_back(index);
}

// Units in memory for their steps.
void OffloadCheck::stage(int index) {
  if (index < last_compute_) return;
  int there = 0;
  for (const UnitState& state : units_)
    there += state.states.brought >= 0 || state.params.brought >= 0 ||
             (state.grad.summed && state.grad.there && state.states.changed < 0);
  if (const int most = staged_units(view_.plan); there > most)
    view_.refuse(index, "{} units would be in memory for their steps, {} may be", there, most);
}

void OffloadCheck::finish() {
  for (UnitId unit : units_of_stage(view_.program(), view_.stage)) {
    const UnitState& state = at(unit);
    for (const auto& [held, what] :
         {std::pair(&state.states, "states"), std::pair(&state.params, "parameters")}) {
      if (!held->away) continue;
      if (held->brought >= 0)
        view_.refuse(-1, "{} of unit {} are left in memory", what, unit_name(unit));
      if (held->changed >= 0 && !held->saved)
        view_.refuse(-1, "{} of unit {} are stepped and lost", what, unit_name(unit));
    }
  }
  for (const auto& [of_mb, line] : values_away_) view_.refuse(line, "never comes back");
}

}  // namespace trireme::plan
