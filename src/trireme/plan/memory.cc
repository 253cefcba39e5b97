#include "trireme/plan/memory.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/plan/lane_order.h"
#include "trireme/plan/placement.h"
#include "trireme/plan/shard.h"

namespace trireme::plan {
namespace {

using mesh::Axis;
using Piece = std::pair<int, int>;  // a value or node, of a micro-batch

std::int64_t width(DType type) { return static_cast<std::int64_t>(size_of(type)); }

// What of a unit's gradient is live in one of the rank's chunks.
struct ChunkMemory {
  bool leaf = false;  // the gradient of one micro-batch is open
  int pushed = 0;     // micro-batches in the counter
  int levels = 0;     // partial sums it holds
};

// Sizes of one unit on one rank, and what of its gradient is live.
struct UnitMemory {
  std::int64_t full = 0;  // elements of full buffers: shards with their padding
  std::int64_t part = 0;  // elements that this rank steps
  int pending = -1;       // reduction on its way
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
        stage_(plan.mesh.coordinate(rank, Axis::kPp)) {
    const int shards = plan.mesh.degree(mesh::kShards);
    sharded_ = row_.sharded_states && shards > 1;
    units_.resize(plan.program.units.size());
    for (UnitId unit : units_of_stage(plan.program, stage_)) {
      UnitMemory& memory = units_[unit];
      memory.part = shard_numel(plan.program.units[unit].numel, sharded_ ? shards : 1);
      memory.full = memory.part * (sharded_ ? shards : 1);
      persistent(plan.program.units[unit], memory);
    }
    result_.persistent = live_;
  }

  MemoryAccount run() && {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      for (UnitMemory& unit : units_)
        if (unit.pending >= 0 && settles(static_cast<int>(i), unit)) settle(unit);
      after_.clear();
      for (int earlier : list_[i].after) left(earlier);
      begin(list_[i]);
      retire(i);
      record(static_cast<int>(i));
      for (const auto& [kind, bytes] : after_) add(kind, -bytes);
    }
    after_.clear();
    while (!sent_.empty()) left(sent_.front());
    for (const auto& [kind, bytes] : after_) add(kind, -bytes);
    TRIREME_CHECK(live_ == result_.persistent, "plan {}: a step leaves memory behind",
                  plan_.program.name);
    return std::move(result_);
  }

 private:
  void add(MemoryKind kind, std::int64_t bytes) { live_[static_cast<std::size_t>(kind)] += bytes; }
  void drop_after(MemoryKind kind, std::int64_t bytes) { after_.emplace_back(kind, bytes); }
  // Memory that exists while the line runs only.
  void transient(MemoryKind kind, std::int64_t bytes) {
    add(kind, bytes);
    drop_after(kind, bytes);
  }

  bool scatters_each_mb() const { return sharded_ && row_.reduce_each_mb; }
  std::int64_t compute_bytes(std::int64_t count) const { return count * width(recipe_.compute); }
  std::int64_t grad_bytes(std::int64_t count) const { return count * width(recipe_.grads); }
  // A level of the counter.
  std::int64_t level_bytes(const UnitMemory& unit) const {
    return grad_bytes(scatters_each_mb() ? unit.part : unit.full);
  }

  void persistent(const Unit& unit, const UnitMemory& memory) {
    const bool gathered = sharded_ && row_.sharded_params;
    add(MemoryKind::kParams, compute_bytes(gathered ? memory.part : memory.full));
    const bool copy = recipe_.master != recipe_.compute && (unit.trainable || unit.ema_of >= 0);
    const int tensors = (unit.trainable ? recipe_.optimizer_states : 0) + copy;
    add(MemoryKind::kOptimizer, tensors * memory.part * width(recipe_.master));
    result_.model_states += compute_bytes(gathered ? memory.part : memory.full) +
                            tensors * memory.part * width(recipe_.master) +
                            (unit.trainable ? level_bytes(memory) : 0);
  }

  // A list waits at lines that compute and at grad_norm; a unit has one reduction at a time.
  bool settles(int index, const UnitMemory& unit) const {
    const Instr& line = list_[static_cast<std::size_t>(index)];
    if (line.unit >= 0 && &units_[line.unit] == &unit && line.verb == Verb::kReduceGrads)
      return true;
    return (line.lane == Lane::kComp || line.verb == Verb::kGradNorm) &&
           order_.before(unit.pending, index);
  }

  void settle(UnitMemory& unit) {
    const Instr& line = list_[static_cast<std::size_t>(std::exchange(unit.pending, -1))];
    if (line.axes == mesh::AxisSet(Axis::kTp))
      add(MemoryKind::kUnitBuffers, -grad_bytes(plan_.program.units[line.unit].tp_partial));
    if (!line.scatter) return;
    add(line.mb >= 0 ? MemoryKind::kUnitBuffers : MemoryKind::kGradients, -grad_bytes(unit.full));
    if (line.mb < 0) return;
    ChunkMemory& chunk = unit.chunks[line.chunk];
    const int before = chunk.levels;
    push(chunk);
    // The part that came in is one of the levels now, or has been added to one.
    add(MemoryKind::kGradients, (chunk.levels - before - 1) * grad_bytes(unit.part));
  }

  // Binary counter: after k micro-batches one level for every bit set in k.
  void push(ChunkMemory& chunk) {
    ++chunk.pushed;
    chunk.levels = recipe_.canonical ? std::popcount(static_cast<unsigned>(chunk.pushed)) : 1;
  }

  // Adds up the levels of all chunks into one buffer.
  void collapse(UnitMemory& unit) {
    int levels = 0;
    for (auto& [number, chunk] : unit.chunks) levels += std::exchange(chunk.levels, 0);
    if (levels == 0) return;
    drop_after(MemoryKind::kGradients, (levels - 1) * level_bytes(unit));
    unit.chunks.begin()->second.levels = 1;
  }

  void begin(const Instr& line) {
    switch (line.verb) {
      case Verb::kLoad:
        for (ValueId value : inputs_of_stage(plan_.program, stage_)) put(value, line.mb);
        break;
      case Verb::kForward: forward(line); break;
      case Verb::kRecompute: keep(line); break;
      case Verb::kBackward:
        backward(line, 0);
        add_gradients(line);
        break;
      case Verb::kBackwardInput:
        backward(line, plan_.program.nodes[line.node].split->kept_bytes);
        break;
      case Verb::kBackwardWeight:
        drop_after(MemoryKind::kActivations, plan_.program.nodes[line.node].split->kept_bytes);
        add_gradients(line);
        break;
      case Verb::kSend: send(line); break;
      case Verb::kRecv:
        if (line.gradient)
          open_gradient(line.value, line.mb);
        else
          put(line.value, line.mb);
        break;
      case Verb::kUnshard:
        if (row_.sharded_params)
          add(MemoryKind::kUnitBuffers, compute_bytes(units_[line.unit].full));
        break;
      case Verb::kReshard:
        drop_after(MemoryKind::kUnitBuffers, compute_bytes(units_[line.unit].full));
        break;
      case Verb::kReduceGrads: reduce(line, units_[line.unit]); break;
      case Verb::kGradNorm:
        for (UnitMemory& unit : units_) collapse(unit);
        break;
      case Verb::kStep: step(units_[line.unit]); break;
      default: break;
    }
  }

  void reduce(const Instr& line, UnitMemory& unit) {
    unit.pending = static_cast<int>(&line - list_.data());
    if (line.axes == mesh::AxisSet(Axis::kTp))
      add(MemoryKind::kUnitBuffers, grad_bytes(plan_.program.units[line.unit].tp_partial));
    if (!line.scatter) {
      if (line.mb < 0) collapse(unit);
      return;
    }
    add(MemoryKind::kGradients, grad_bytes(unit.part));  // what comes in
    if (line.mb < 0) {
      collapse(unit);
      return;
    }
    unit.chunks[line.chunk].leaf = false;
  }

  void step(UnitMemory& unit) {
    // Where every micro-batch is scattered, or none, the sum is a level; else the part that came in.
    drop_after(MemoryKind::kGradients, sharded_ ? grad_bytes(unit.part) : level_bytes(unit));
    unit.chunks.clear();
  }

  void forward(const Instr& line) {
    for (ValueId value : plan_.program.nodes[line.node].writes) put(value, line.mb);
    if (line.keep) keep(line);
  }

  void keep(const Instr& line) {
    const Node& node = plan_.program.nodes[line.node];
    add(MemoryKind::kActivations, node.saved_bytes);
    for (ValueId value : node.reads) ++holders_[{value, line.mb}];
  }

  // `left` bytes stay for the weight half.
  void backward(const Instr& line, std::int64_t left) {
    const Node& node = plan_.program.nodes[line.node];
    drop_after(MemoryKind::kActivations, node.saved_bytes - left);
    for (ValueId value : node.reads) {
      if (flow_.value_has_grad[value]) open_gradient(value, line.mb);
      release(value, line.mb);
    }
    for (ValueId value : node.writes)
      if (flow_.value_has_grad[value]) drop_gradient(value, line.mb);
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
    for (ValueId value : retired_[index].values) release(value, list_[index].mb);
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
    if (!line.gradient) ++holders_[{line.value, line.mb}];
    sent_.push_back(static_cast<int>(&line - list_.data()));
  }
  void left(int index) {
    const Queue queue = queue_of(list_[static_cast<std::size_t>(index)]);
    std::erase_if(sent_, [&](int earlier) {
      const Instr& line = list_[static_cast<std::size_t>(earlier)];
      if (earlier > index || queue_of(line) != queue) return false;
      if (line.gradient)
        drop_gradient(line.value, line.mb);
      else
        release(line.value, line.mb);
      return true;
    });
  }

  void put(ValueId value, int mb) {
    holders_[{value, mb}] = 1;
    add(MemoryKind::kActivations, plan_.program.values[value].bytes);
  }
  void release(ValueId value, int mb) {
    if (--holders_[{value, mb}] == 0)
      drop_after(MemoryKind::kActivations, plan_.program.values[value].bytes);
  }
  void open_gradient(ValueId value, int mb) {
    if (gradients_.insert({value, mb}).second)
      add(MemoryKind::kActivations, plan_.program.values[value].bytes);
  }
  void drop_gradient(ValueId value, int mb) {
    if (gradients_.erase({value, mb}) > 0)
      drop_after(MemoryKind::kActivations, plan_.program.values[value].bytes);
  }

  void record(int index) {
    result_.at_line.push_back(live_);
    std::int64_t total = 0;
    for (std::size_t kind = 0; kind < live_.size(); ++kind) {
      total += live_[kind];
      result_.peak[kind] = std::max(result_.peak[kind], live_[kind]);
    }
    if (total <= result_.peak_total) return;
    result_.peak_total = total;
    result_.peak_line = index;
  }

  const PlanSet& plan_;
  const Recipe& recipe_;
  const List& list_;
  DataParallelRow row_;
  GradientFlow flow_;
  std::vector<Retirement> retired_;
  LaneOrder order_;
  int stage_ = 0;
  bool sharded_ = false;
  std::vector<UnitMemory> units_;
  std::map<Piece, int> holders_;  // of a value: its place among the values, and kept forwards
  std::set<Piece> gradients_;
  std::vector<int> sent_;  // lines whose values may not have left
  MemoryPoint live_{};
  std::vector<std::pair<MemoryKind, std::int64_t>> after_;
  MemoryAccount result_;
};

}  // namespace

std::string_view name(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"params", "optimizer", "gradients", "unit_buffers",
                                         "activations"};
  return kNames[static_cast<std::size_t>(kind)];
}

MemoryAccount memory_account(const PlanSet& plan, int rank) { return Account(plan, rank).run(); }

}  // namespace trireme::plan
