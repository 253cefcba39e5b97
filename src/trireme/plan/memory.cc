#include "trireme/plan/memory.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/plan/check/live_values.h"
#include "trireme/plan/compile/lane_order.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

using mesh::Axis;
std::int64_t width(DType type) { return static_cast<std::int64_t>(size_of(type)); }

// What of a unit's gradient is live in one of the rank's chunks.
struct ChunkMemory {
  bool leaf = false;  // the gradient of one micro-batch is open
  int pushed = 0;     // gradients in the counter
  unsigned away = 0;  // partial sums outside memory
  int levels = 0;     // partial sums in memory
};

// Sizes of one unit on one rank, and what of its gradient is live.
struct UnitMemory {
  std::int64_t full = 0;  // elements of full buffers: shards with their padding
  std::int64_t part = 0;  // elements that this rank steps
  int leaves = 1;         // pushed at a time, where every micro-batch is scattered
  int pending = -1;       // reduction on its way
  bool summed = false;    // the step's sum has left, or come back
  std::map<int, ChunkMemory> chunks{};
};

class Account {
 public:
  Account(const PlanSet& plan, int rank)
      : plan_(plan),
        recipe_(plan.recipe),
        list_(plan.list(rank)),
        row_(data_parallel_row(plan.recipe.zero)),
        flow_(gradient_flow(plan.program)),
        retired_(retirements(plan.program, list_)),
        order_(list_),
        away_(plan.program, plan.recipe),
        stage_(plan.mesh.coordinate(rank, Axis::kPp)) {
    units_.resize(plan.program.units.size());
    for (UnitId unit : units_of_stage(plan.program, stage_)) {
      const UnitShare share = share_of(plan, unit);
      sharded_ = share.sharded;
      units_[unit].part = share.part;
      units_[unit].full = share.full;
      units_[unit].leaves = leaves_of(plan, unit);
      persistent(unit);
    }
    add(MemoryKind::kHost, host_bytes(plan, rank));
    result_.persistent = ledger_.live();
  }

  MemoryAccount run() && {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      for (UnitMemory& unit : units_)
        if (unit.pending >= 0 && settles(static_cast<int>(i), unit)) settle(unit);
      for (int earlier : list_[i].after) left(earlier);
      begin(list_[i]);
      retire(i);
      ledger_.record(static_cast<int>(i), result_);
      ledger_.end_line();
    }
    while (!sent_.empty()) left(sent_.front());
    while (!leaving_.empty()) left(leaving_.front());
    ledger_.end_line();
    TRIREME_CHECK(ledger_.live() == result_.persistent, "plan {}: a step leaves memory behind",
                  plan_.program.name);
    return std::move(result_);
  }

 private:
  void add(MemoryKind kind, std::int64_t bytes) { ledger_.add(kind, bytes); }
  void drop_after(MemoryKind kind, std::int64_t bytes) { ledger_.drop_after(kind, bytes); }
  void transient(MemoryKind kind, std::int64_t bytes) { ledger_.transient(kind, bytes); }

  bool scatters_each_mb() const { return sharded_ && row_.reduce_each_mb; }
  // Of the gathered parameters.
  std::int64_t full_bytes(UnitId unit) const {
    return units_[unit].full * width(param_type(recipe_, plan_.program.units[unit]));
  }
  std::int64_t grad_bytes(std::int64_t count) const { return count * width(recipe_.grads); }
  std::int64_t reduce_bytes(std::int64_t count) const {
    return count * width(reduce_type(recipe_));
  }
  // Whether gradients are copied to another type for their way between ranks.
  bool converts() const { return reduce_type(recipe_) != recipe_.grads; }
  // A level of the counter.
  std::int64_t level_bytes(const UnitMemory& unit) const {
    return grad_bytes(scatters_each_mb() ? unit.part : unit.full);
  }

  const Unit& of(UnitId unit) const { return plan_.program.units[static_cast<std::size_t>(unit)]; }
  // Of a unit, what the rank has between steps.
  std::int64_t params_bytes(UnitId unit) const {
    const UnitMemory& memory = units_[unit];
    return (sharded_ && row_.sharded_params ? memory.part : memory.full) *
           width(param_type(recipe_, of(unit)));
  }
  // What the optimizer keeps of it: perhaps weights of their own, and states.
  std::int64_t states_bytes(UnitId unit) const {
    const std::int64_t part = units_[unit].part;
    return part * master_bytes(recipe_, of(unit)) +
           (of(unit).trainable ? state_bytes(recipe_, of(unit), part) : 0);
  }

  void persistent(UnitId unit) {
    if (!away_(unit, Piece::kParams)) add(MemoryKind::kParams, params_bytes(unit));
    if (!away_(unit, Piece::kStates)) add(MemoryKind::kOptimizer, states_bytes(unit));
    result_.model_states += params_bytes(unit) + states_bytes(unit) +
                            (of(unit).trainable ? level_bytes(units_[unit]) : 0);
  }

  // A list waits at lines that compute and at grad_norm; a unit has one reduction at a time.
  bool settles(int index, const UnitMemory& unit) const {
    const Instr& line = list_[static_cast<std::size_t>(index)];
    if (line.unit >= 0 && &units_[line.unit] == &unit &&
        (line.verb == Verb::kReduceGrads || line.verb == Verb::kSyncTied))
      return true;
    return (line.lane == Lane::kComp || line.lane == Lane::kD2h || line.verb == Verb::kGradNorm) &&
           order_.before(unit.pending, index);
  }

  void settle(UnitMemory& unit) {
    const Instr& line = list_[static_cast<std::size_t>(std::exchange(unit.pending, -1))];
    if (line.axes == mesh::AxisSet(Axis::kTp))
      add(MemoryKind::kCommBuffers, -reduce_bytes(plan_.program.units[line.unit].tp_partial));
    else if (converts())
      add(MemoryKind::kCommBuffers, -travelling_bytes(line, unit));
    if (!line.scatter) return;
    if (converts())
      add(MemoryKind::kGradients, grad_bytes(received(line, unit)));
    else
      add(line.mb >= 0 ? MemoryKind::kUnitBuffers : MemoryKind::kGradients, -grad_bytes(unit.full));
    if (line.mb < 0) return;
    ChunkMemory& chunk = unit.chunks[line.chunk];
    const int before = chunk.levels;
    for (int leaf = 0; leaf < unit.leaves; ++leaf) push(chunk);
    // What came in is among the levels now, or has been added to them.
    add(MemoryKind::kGradients,
        (chunk.levels - before) * grad_bytes(unit.part) - grad_bytes(received(line, unit)));
  }

  // Elements that a scatter brings.
  static std::int64_t received(const Instr& line, const UnitMemory& unit) {
    return line.mb >= 0 ? unit.part * unit.leaves : unit.part;
  }

  // Copies of gradients in the type in which they travel.
  std::int64_t travelling_bytes(const Instr& line, const UnitMemory& unit) const {
    if (line.scatter) return reduce_bytes(unit.full + received(line, unit));
    return reduce_bytes(sharded_ ? unit.part : unit.full);
  }

  // Binary counter: after k gradients one level for every bit set in k.
  void push(ChunkMemory& chunk) {
    ++chunk.pushed;
    const unsigned levels = recipe_.canonical ? static_cast<unsigned>(chunk.pushed) : 1;
    chunk.levels = std::popcount(levels & ~chunk.away);
  }

  // Adds up the levels of a chunk into one buffer.
  void collapse(const UnitMemory& unit, ChunkMemory& chunk) {
    if (chunk.levels == 0) return;
    drop_after(MemoryKind::kGradients, (chunk.levels - 1) * level_bytes(unit));
    chunk.levels = 1;
  }
  // And the sums of all chunks into one.
  void collapse(UnitMemory& unit) {
    int sums = 0;
    for (auto& [number, chunk] : unit.chunks) {
      collapse(unit, chunk);
      sums += std::exchange(chunk.levels, 0);
    }
    if (sums == 0) return;
    drop_after(MemoryKind::kGradients, (sums - 1) * sum_bytes(unit));
    unit.chunks.begin()->second.levels = 1;
  }
  // The step's sum, reduced: where every micro-batch is scattered, or none, it is a level; else the part that came in.
  std::int64_t sum_bytes(const UnitMemory& unit) const {
    return sharded_ ? grad_bytes(unit.part) : level_bytes(unit);
  }

  void begin(const Instr& line) {
    switch (line.verb) {
      case Verb::kLoad:
        for (ValueId value : inputs_of_stage(plan_.program, stage_)) values_.put(value, line.mb);
        break;
      case Verb::kForward: forward(line); break;
      case Verb::kRecompute: recompute(line); break;
      case Verb::kBackward:
        backward(line, 0);
        add_gradients(line);
        break;
      case Verb::kBackwardInput:
        backward(line, plan_.program.nodes[line.node].split->kept_bytes);
        break;
      case Verb::kBackwardWeight:
        drop_after(MemoryKind::kActivations, plan_.program.nodes[line.node].split->kept_bytes);
        transient(MemoryKind::kWork, plan_.program.nodes[line.node].work.weight);
        add_gradients(line);
        break;
      case Verb::kSend: send(line); break;
      case Verb::kRecv:
        if (line.gradient)
          values_.open_gradient(line.value, line.mb);
        else
          values_.put(line.value, line.mb);
        break;
      case Verb::kUnshard:
        if (row_.sharded_params) add(MemoryKind::kUnitBuffers, full_bytes(line.unit));
        break;
      case Verb::kReshard:
        if (sharded_ && row_.sharded_params)
          drop_after(MemoryKind::kUnitBuffers, full_bytes(line.unit));
        if (away_(line.unit, Piece::kParams))
          drop_after(MemoryKind::kStaging, params_bytes(line.unit));
        break;
      case Verb::kReload: reload(line); break;
      case Verb::kOffload: offload(line); break;
      case Verb::kReduceGrads: reduce(line, units_[line.unit]); break;
      case Verb::kSyncTied:
        collapse(units_[line.unit]);
        if (!converts()) break;
        units_[line.unit].pending = static_cast<int>(&line - list_.data());
        add(MemoryKind::kCommBuffers, travelling_bytes(line, units_[line.unit]));
        break;
      case Verb::kGradNorm:
        for (UnitMemory& unit : units_) collapse(unit);
        break;
      case Verb::kStep: step(line.unit); break;
      default: break;
    }
  }

  void reduce(const Instr& line, UnitMemory& unit) {
    unit.pending = static_cast<int>(&line - list_.data());
    if (line.axes == mesh::AxisSet(Axis::kTp))
      add(MemoryKind::kCommBuffers, reduce_bytes(plan_.program.units[line.unit].tp_partial));
    else if (converts())
      add(MemoryKind::kCommBuffers, travelling_bytes(line, unit));
    if (line.mb < 0) collapse(unit, unit.chunks[line.chunk]);
    if (!line.scatter) return;
    if (line.mb >= 0) unit.chunks[line.chunk].leaf = false;
    if (converts())  // the copy is what travels
      drop_after(line.mb >= 0 ? MemoryKind::kUnitBuffers : MemoryKind::kGradients,
                 grad_bytes(unit.full));
    else
      add(MemoryKind::kGradients, grad_bytes(received(line, unit)));  // what comes in
  }

  void step(UnitId id) {
    UnitMemory& unit = units_[id];
    // Made anew from the copy that is stepped.
    if (has_master_copy(recipe_, of(id)) && away_(id, Piece::kParams))
      add(MemoryKind::kStaging, params_bytes(id));
    drop_after(MemoryKind::kGradients, sum_bytes(unit));
    unit.chunks.clear();
  }

  void reload(const Instr& line) {
    if (line.value >= 0) {
      if (!line.axes.empty()) drop_after(MemoryKind::kActivations, slice_bytes(line.value));
      return values_.put(line.value, line.mb);
    }
    UnitMemory& unit = units_[line.unit];
    if (line.piece == Piece::kParams) add(MemoryKind::kStaging, params_bytes(line.unit));
    if (line.piece == Piece::kStates) add(MemoryKind::kStaging, states_bytes(line.unit));
    if (line.piece != Piece::kGrads) return;
    if (unit.summed) return add(MemoryKind::kGradients, grad_bytes(unit.part));
    for (auto& [number, chunk] : unit.chunks) {
      if (line.mb >= 0 && number != line.chunk) continue;
      const unsigned met = line.mb < 0 ? ~0u : (1u << levels_met(line.mb, recipe_.canonical)) - 1;
      const int levels = std::popcount(chunk.away & met);
      chunk.away &= ~met;
      chunk.levels += levels;
      add(MemoryKind::kGradients, levels * level_bytes(unit));
    }
  }

  // What leaves is in memory until a line waits for it to have left, or the step ends.
  void offload(const Instr& line) {
    if (!line.axes.empty()) {
      add(MemoryKind::kActivations, slice_bytes(line.value));
      return values_.release(values_.copy(line.value, line.mb));
    }
    leaving_.push_back(static_cast<int>(&line - list_.data()));
    if (line.piece != Piece::kGrads) return;
    UnitMemory& unit = units_[line.unit];
    if (line.mb < 0) {
      collapse(unit);
      unit.summed = true;
      unit.chunks.clear();
      return;
    }
    ChunkMemory& chunk = unit.chunks[line.chunk];
    chunk.away |= 1u << level_of_sum(line.mb, recipe_.canonical);
    --chunk.levels;
  }

  // Before the line that waits for it takes its own.
  void gone(const Instr& line) {
    if (line.value >= 0) {
      if (values_.let_go(values_.copy(line.value, line.mb)))
        add(MemoryKind::kActivations, -plan_.program.values[line.value].bytes);
      return;
    }
    const UnitMemory& unit = units_[line.unit];
    switch (line.piece) {
      case Piece::kNone: break;
      case Piece::kStates: add(MemoryKind::kStaging, -states_bytes(line.unit)); break;
      case Piece::kParams: add(MemoryKind::kStaging, -params_bytes(line.unit)); break;
      case Piece::kGrads:
        add(MemoryKind::kGradients, line.mb < 0 ? -grad_bytes(unit.part) : -level_bytes(unit));
        break;
    }
  }

  // A tp rank's part of a value, in whole elements.
  std::int64_t slice_bytes(ValueId value) const {
    const std::int64_t element = width(value_type(recipe_, plan_.program.values[value]));
    const std::int64_t ranks = plan_.mesh.degree(Axis::kTp);
    const std::int64_t count = plan_.program.values[value].bytes / element;
    return (count + ranks - 1) / ranks * element;
  }

  void forward(const Instr& line) {
    for (ValueId value : plan_.program.nodes[line.node].writes) values_.put(value, line.mb);
    const Node& node = plan_.program.nodes[line.node];
    if (line.keep) keep(line);
    transient(MemoryKind::kWork,
              line.keep ? dropped_bytes(node) + node.work.forward : node.work.passing);
  }

  void recompute(const Instr& line) {
    const std::vector<ValueId>& again =
        retired_[static_cast<std::size_t>(&line - list_.data())].writes;
    for (ValueId value : plan_.program.nodes[line.node].writes) {
      if (contains(again, value))
        values_.put(value, line.mb);
      else
        transient(MemoryKind::kActivations, plan_.program.values[value].bytes);
    }
    keep(line);
    const Node& node = plan_.program.nodes[line.node];
    transient(MemoryKind::kWork, dropped_bytes(node) + node.work.forward);
  }

  void keep(const Instr& line) {
    const Node& node = plan_.program.nodes[line.node];
    add(MemoryKind::kActivations, kept_bytes(node));
    values_.keep_inputs(line.node, line.mb);
  }

  // `left` bytes stay for the weight half.
  void backward(const Instr& line, std::int64_t left) {
    const Node& node = plan_.program.nodes[line.node];
    transient(MemoryKind::kActivations, work_bytes(node));
    transient(MemoryKind::kWork,
              line.verb == Verb::kBackward ? node.work.backward : node.work.input);
    drop_after(MemoryKind::kActivations, kept_bytes(node) - left);
    for (ValueId value : node.reads)
      for (int mb : batches(node, line.mb, recipe_.micro_batches))
        if (flow_.value_has_grad[value]) values_.open_gradient(value, mb);
    values_.release_inputs(line.node, line.mb);
    for (ValueId value : node.writes)
      if (flow_.value_has_grad[value]) values_.drop_gradient(value, line.mb);
  }

  void add_gradients(const Instr& line) {
    const Node& node = plan_.program.nodes[line.node];
    for (UnitId id : node.units) {
      if (!plan_.program.units[id].trainable) continue;
      UnitMemory& unit = units_[id];
      if (std::exchange(unit.chunks[node.chunk].leaf, true)) continue;
      add(MemoryKind::kUnitBuffers, grad_bytes(unit.full));
    }
  }

  void retire(std::size_t index) {
    for (const auto& [value, mb] : retired_[index].values) values_.release(values_.copy(value, mb));
    if (scatters_each_mb()) return;
    for (UnitId id : retired_[index].gradients) {
      UnitMemory& unit = units_[id];
      ChunkMemory& chunk = unit.chunks[plan_.program.nodes[list_[index].node].chunk];
      drop_after(MemoryKind::kUnitBuffers, grad_bytes(unit.full));
      chunk.leaf = false;
      const int before = chunk.levels;
      push(chunk);
      drop_after(MemoryKind::kGradients, (before - chunk.levels) * level_bytes(unit));
    }
  }

  // What is sent is kept until a line waits for it to have left, or the step ends.
  void send(const Instr& line) {
    if (!line.gradient) values_.hold(values_.copy(line.value, line.mb));
    sent_.push_back(static_cast<int>(&line - list_.data()));
  }
  void left(int index) {
    const Queue queue = queue_of(list_[static_cast<std::size_t>(index)]);
    if (queue.lane == Lane::kD2h)
      std::erase_if(leaving_, [&](int earlier) {
        if (earlier > index) return false;
        gone(list_[static_cast<std::size_t>(earlier)]);
        return true;
      });
    std::erase_if(sent_, [&](int earlier) {
      const Instr& line = list_[static_cast<std::size_t>(earlier)];
      if (earlier > index || queue_of(line) != queue) return false;
      if (line.gradient)
        values_.drop_gradient(line.value, line.mb);
      else
        values_.release({line.value, line.mb, 1});
      return true;
    });
  }

  const PlanSet& plan_;
  const Recipe& recipe_;
  const List& list_;
  DataParallelRow row_;
  GradientFlow flow_;
  std::vector<Retirement> retired_;
  LaneOrder order_;
  Away away_;
  int stage_ = 0;
  bool sharded_ = false;
  std::vector<UnitMemory> units_;
  std::vector<int> sent_;     // lines whose values may not have left
  std::vector<int> leaving_;  // lines that offload and may not have ended
  Ledger ledger_;
  LiveValues values_{plan_.program, recipe_.micro_batches, ledger_};
  MemoryAccount result_;
};

}  // namespace

std::string_view name(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"params",       "optimizer",   "gradients",
                                         "unit_buffers", "activations", "work",
                                         "comm_buffers", "staging",     "host"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t dropped_bytes(const Node& node) {
  std::int64_t bytes = 0;
  for (const Part& part : node.parts)
    if (part.again) bytes += std::min(part.saved_bytes, part.work_bytes);
  return bytes;
}

MemoryAccount memory_account(const PlanSet& plan, int rank) { return Account(plan, rank).run(); }

}  // namespace trireme::plan
