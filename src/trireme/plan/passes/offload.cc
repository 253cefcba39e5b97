#include "trireme/plan/passes/offload.h"

#include <algorithm>
#include <map>
#include <optional>

#include "trireme/plan/binary_counter.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/passes/runs.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

Instr moved(Verb verb, UnitId unit, TensorKind tensors, int mb, int chunk) {
  return {.verb = verb,
          .lane = verb == Verb::kReload ? Lane::kH2d : Lane::kD2h,
          .unit = unit,
          .tensors = tensors,
          .mb = mb,
          .chunk = chunk};
}
Instr reload(UnitId unit, TensorKind tensors, int mb = -1, int chunk = 0) {
  return moved(Verb::kReload, unit, tensors, mb, chunk);
}
Instr offload(UnitId unit, TensorKind tensors, int mb = -1, int chunk = 0) {
  return moved(Verb::kOffload, unit, tensors, mb, chunk);
}

std::size_t find(const List& list, Verb verb) {
  return static_cast<std::size_t>(std::ranges::find(list, verb, &Instr::verb) - list.begin());
}

// Where the list comes to another node, or turns back: what comes back ahead of its use does so this many places ahead.
class Turns {
 public:
  Turns(const List& list, int prefetch) : prefetch_(prefetch) {
    const Instr* previous = nullptr;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!computes(list[i])) continue;
      const bool forward = list[i].verb == Verb::kForward;
      if (previous == nullptr || previous->node != list[i].node || previous->mb != list[i].mb ||
          (previous->verb == Verb::kForward) != forward)
        begins_.push_back(i);
      previous = &list[i];
    }
  }
  // The line before which something comes back that a computing line uses.
  std::size_t ahead_of(std::size_t line) const {
    const auto turn = std::ranges::upper_bound(begins_, line) - begins_.begin() - 1;
    return begins_[std::max<std::ptrdiff_t>(turn - prefetch_, 0)];
  }

 private:
  int prefetch_;
  std::vector<std::size_t> begins_;
};

// From a gather to what gives its memory back.
std::vector<Run> gathers(const List& list) {
  std::vector<Run> all;
  std::map<UnitId, std::size_t> open;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].verb == Verb::kUnshard) {
      open[list[i].unit] = all.size();
      all.push_back({.unit = list[i].unit, .begin = i});
    }
    if (list[i].verb == Verb::kReshard) all[open.at(list[i].unit)].end = i;
  }
  return all;
}

// Where a value of a micro-batch is touched.
struct Touches {
  std::size_t last_forward = 0;
  std::optional<std::size_t> recomputed{};  // first recomputation that reads it
  bool stays = false;
};

std::map<std::pair<ValueId, int>, Touches> touches(const Stage& stage, const List& list) {
  std::map<std::pair<ValueId, int>, Touches> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Instr& line = list[i];
    if (line.verb == Verb::kRecv && !line.gradient) all[{line.value, line.mb}].last_forward = i;
    if (line.verb == Verb::kSend && !line.gradient) all[{line.value, line.mb}].stays = true;
    if (line.verb == Verb::kForward) {
      for (ValueId value : stage.node(line.node).writes)
        all[{value, line.mb}] = {.last_forward = i, .stays = line.keep};
      for (ValueId value : stage.node(line.node).reads)
        for (int mb : batches(stage.node(line.node), line.mb, stage.recipe.micro_batches)) {
          const auto found = all.find({value, mb});
          if (found == all.end()) continue;
          found->second.last_forward = i;
          found->second.stays = found->second.stays || line.keep;
        }
    }
    if (line.verb == Verb::kRecompute)
      for (ValueId value : stage.node(line.node).reads) {
        const auto found = all.find({value, line.mb});
        if (found != all.end() && !found->second.recomputed) found->second.recomputed = i;
      }
    // What is written again before it is read again has no need to be kept.
    if (line.verb == Verb::kRecompute)
      for (ValueId value : stage.node(line.node).writes)
        if (Touches& touched = all[{value, line.mb}]; !touched.recomputed) touched.stays = true;
  }
  return all;
}

// A unit's gradient while the sums of its micro-batches come and go.
class GradientMoves {
 public:
  GradientMoves(const Stage& stage, const List& list, Insertion& insertion)
      : stage_(stage),
        list_(list),
        insertion_(insertion),
        turns_(list, stage.recipe.offload.prefetch),
        norm_(find(list, Verb::kGradNorm)) {
    for (std::size_t i = 0; i < list.size(); ++i)
      if (adds_gradients(list[i])) adding_.push_back(i);
  }

  void add(UnitId unit) {
    const std::vector<Event> events = events_of(unit);
    std::map<int, int> pushed;  // by chunk
    std::size_t left = 0;       // line after which the last sum left
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      const bool last = i + 1 == events.size();
      const bool meets = last ? events.size() > 1
                              : levels_met(pushed[event.chunk]++, summed_in_row(stage_.recipe)) > 0;
      const int mb = last ? -1 : event.mb;
      const int chunk = last ? 0 : event.chunk;
      if (meets)
        insertion_.before(std::max(turns_.ahead_of(event.completed), i > 0 ? left + 1 : 0),
                          reload(unit, TensorKind::kGrads, mb, chunk));
      left = leaves(event, last ? norm_ : events[i + 1].completed);
      insertion_.after(left, offload(unit, TensorKind::kGrads, mb, chunk));
    }
  }

 private:
  // The gradient of a chunk's micro-batch.
  struct Event {
    int chunk = 0;
    int mb = 0;
    std::size_t completed = 0;  // by the backward of its last user
    std::size_t closed = 0;     // by its reduction, of the last one the step's
  };

  std::vector<Event> events_of(UnitId unit) const {
    const std::vector<NodeId> users =
        gradient_users(stage_.program, stage_.flow, unit, stage_.index);
    std::map<std::pair<int, int>, Event> of;
    std::size_t closed = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const Instr& line = list_[i];
      if (adds_gradients(line) && std::ranges::binary_search(users, line.node)) {
        const int chunk = stage_.node(line.node).chunk;
        of[{chunk, line.mb}] = {.chunk = chunk, .mb = line.mb, .completed = i, .closed = i};
      }
      if (line.unit != unit || (line.verb != Verb::kReduceGrads && line.verb != Verb::kSyncTied))
        continue;
      closed = i;
      if (line.mb >= 0) of.at({line.chunk, line.mb}).closed = i;
    }
    std::vector<Event> events;
    for (const auto& [key, event] : of) events.push_back(event);
    std::ranges::sort(events, {}, &Event::completed);
    if (!events.empty()) events.back().closed = std::max(events.back().closed, closed);
    return events;
  }

  // A reduction has a backward's time to end, where one follows.
  std::size_t leaves(const Event& event, std::size_t before) const {
    if (list_[event.closed].lane == Lane::kComp) return event.closed;
    const auto next = std::ranges::upper_bound(adding_, event.closed);
    if (next == adding_.end()) return std::max(event.closed, before - 1);
    return *next < before ? *next : event.closed;
  }

  const Stage& stage_;
  const List& list_;
  Insertion& insertion_;
  Turns turns_;
  std::size_t norm_;
  std::vector<std::size_t> adding_;
};

}  // namespace

List offload_params(const Stage& stage, List list) {
  if (stage.recipe.offload.params == Tier::kNone) return list;
  const auto gathered = [&](const Run& run) { return stage.sharing(run.unit).gathers; };
  std::vector<Run> all = runs(stage, list), around = gathers(list);
  std::erase_if(all, gathered);
  std::erase_if(around, [&](const Run& run) { return !gathered(run); });
  all.insert(all.end(), around.begin(), around.end());
  std::ranges::stable_sort(all, {}, &Run::begin);
  const std::vector<std::size_t> ahead = ahead_of(all, stage.recipe.offload.prefetch);
  Insertion insertion(list);
  for (std::size_t i = 0; i < all.size(); ++i) {
    insertion.before(ahead[i], reload(all[i].unit, TensorKind::kParams));
    if (!gathered(all[i]))
      insertion.after(all[i].end, {.verb = Verb::kReshard, .unit = all[i].unit});
  }
  return insertion.build();
}

List offload_values(const Stage& stage, List list) {
  const Tier tier = stage.recipe.offload.activations;
  if (tier == Tier::kNone) return list;
  const mesh::AxisSet axes = tier == Tier::kTp ? mesh::AxisSet(mesh::Axis::kTp) : mesh::AxisSet();
  const Turns turns(list, stage.recipe.offload.prefetch);
  std::map<std::size_t, std::vector<std::pair<ValueId, int>>>
      leaving;  // by the line that reads them again
  const auto all = touches(stage, list);
  for (const auto& [tensors, touched] : all) {
    if (touched.stays || !touched.recomputed) continue;
    if (tier == Tier::kTp && !stage.program.values[tensors.first].whole) continue;
    // A value that would return at once stays.
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(touched.last_forward) + 1;
    const std::size_t back =
        std::max(turns.ahead_of(*touched.recomputed), touched.last_forward + 1);
    if (std::any_of(begin, list.begin() + static_cast<std::ptrdiff_t>(back), computes))
      leaving[*touched.recomputed].push_back(tensors);
  }
  Insertion insertion(list);
  for (const auto& [recomputed, pieces] : leaving)
    for (const auto& [value, mb] : pieces) {
      insertion.after(all.at({value, mb}).last_forward,
                      {.verb = Verb::kOffload,
                       .lane = axes.empty() ? Lane::kD2h : Lane::kComp,
                       .value = value,
                       .mb = mb,
                       .axes = axes});
      insertion.before(turns.ahead_of(recomputed), {.verb = Verb::kReload,
                                                    .lane = axes.empty() ? Lane::kH2d : Lane::kDp,
                                                    .value = value,
                                                    .mb = mb,
                                                    .axes = axes});
    }
  return insertion.build();
}

List offload_gradients(const Stage& stage, List list) {
  const Away away(stage.program, stage.recipe);
  if (!away.any(TensorKind::kGrads)) return list;
  Insertion insertion(list);
  GradientMoves moves(stage, list, insertion);
  for (UnitId unit : units_of_stage(stage.program, stage.index))
    if (away(unit, TensorKind::kGrads)) moves.add(unit);
  return insertion.build();
}

List offload_steps(const Stage& stage, List list) {
  const Away away(stage.program, stage.recipe);
  struct Update {  // the lines of a unit of which something is away
    std::size_t first = 0, last = 0;
  };
  std::vector<Update> steps;
  std::map<UnitId, std::size_t> begun;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Instr& line = list[i];
    if (line.verb == Verb::kExchangeUpdate || line.verb == Verb::kUpdateMatrices)
      begun.try_emplace(line.unit, i);
    if (line.verb == Verb::kStep &&
        (away(line.unit, TensorKind::kStates) || away(line.unit, TensorKind::kParams) ||
         away(line.unit, TensorKind::kGrads)))
      steps.push_back({.first = begun.try_emplace(line.unit, i).first->second, .last = i});
  }
  const auto prefetch = static_cast<std::size_t>(stage.recipe.offload.prefetch);
  const std::size_t norm = find(list, Verb::kGradNorm);
  Insertion insertion(list);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t last = steps[i].last;
    const UnitId unit = list[last].unit;
    const bool second = has_master_copy(stage.recipe, stage.program.units[unit]);
    const std::size_t ahead = i >= prefetch ? steps[i - prefetch].first : norm;
    for (TensorKind tensors : {TensorKind::kGrads, TensorKind::kStates, TensorKind::kParams})
      if (away(unit, tensors) && !(tensors == TensorKind::kParams && second))
        insertion.before(ahead, reload(unit, tensors));
    // A gather after a step has time until the next one.
    std::size_t behind = last;
    if (stage.recipe.offload.params != Tier::kNone && stage.sharing(unit).gathers_after)
      behind = i + 1 < steps.size() ? steps[i + 1].first : list.size() - 1;
    for (TensorKind tensors : {TensorKind::kStates, TensorKind::kParams})
      if (away(unit, tensors)) insertion.after(behind, offload(unit, tensors));
  }
  return insertion.build();
}

}  // namespace trireme::plan
