#include "trireme/plan/memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/live_values.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/unit_account.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

using mesh::Axis;

class Account {
 public:
  Account(const PlanSet& plan, int rank)
      : plan_(plan),
        recipe_(plan.recipe),
        list_(plan.list(rank)),
        flow_(gradient_flow(plan.program)),
        retired_(retirements(plan.program, list_)),
        stage_(plan.mesh.coordinate(rank, Axis::kPp)),
        units_(plan, rank, ledger_) {
    add(MemoryKind::kHost, host_bytes(plan, rank));
    result_.persistent = ledger_.live();
    result_.model_states = units_.model_states();
  }

  MemoryAccount run() && {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      units_.settle_before(static_cast<int>(i));
      for (int earlier : list_[i].after) left(earlier);
      begin(list_[i]);
      retire(i);
      ledger_.record(static_cast<int>(i), result_);
      ledger_.end_line();
    }
    units_.settle_before(static_cast<int>(list_.size()));
    while (!sent_.empty()) left(sent_.front());
    while (!leaving_.empty()) left(leaving_.front());
    ledger_.end_line();
    TRIREME_CHECK(ledger_.live() == result_.persistent,
                  "plan {}: a step does not release all of its memory", plan_.program.name);
    count_merging();
    return std::move(result_);
  }

 private:
  // Steps that merge islands hold differences and codes of all their units at once, after the updates. The account of
  // a step that merges nothing counts these as well, because it stands for all steps of a run.
  void count_merging() {
    if (!recipe_.outer || recipe_.outer->work != OuterWork()) return;
    std::int64_t bytes =
        std::accumulate(result_.persistent.begin(), result_.persistent.end(), std::int64_t{0});
    for (const UnitId unit : units_of_stage(plan_.program, stage_))
      bytes += merge_bytes(plan_, unit);
    if (bytes <= result_.peak_total) return;
    result_.peak_total = bytes;
    result_.peak_line = static_cast<int>(list_.size()) - 1;
  }

  void add(MemoryKind kind, std::int64_t bytes) { ledger_.add(kind, bytes); }
  void drop_after(MemoryKind kind, std::int64_t bytes) { ledger_.drop_after(kind, bytes); }
  void transient(MemoryKind kind, std::int64_t bytes) { ledger_.transient(kind, bytes); }

  const Node& of(const Instr& line) const { return plan_.program.nodes[line.node]; }

  void begin(const Instr& line) {
    switch (line.verb) {
      case Verb::kLoad:
        for (ValueId value : inputs_of_stage(plan_.program, stage_)) values_.put(value, line.mb);
        break;
      case Verb::kForward: forward(line); break;
      case Verb::kRecompute: recompute(line); break;
      case Verb::kBackward:
        backward(line, 0);
        units_.add_gradients(line);
        break;
      case Verb::kBackwardInput: backward(line, of(line).split->kept_bytes); break;
      case Verb::kBackwardWeight:
        drop_after(MemoryKind::kActivations, of(line).split->kept_bytes);
        transient(MemoryKind::kWork, of(line).work.weight);
        units_.add_gradients(line);
        break;
      case Verb::kSend: send(line); break;
      case Verb::kRecv:
        if (line.gradient)
          values_.open_gradient(line.value, line.mb);
        else
          values_.put(line.value, line.mb);
        break;
      case Verb::kReload: line.value >= 0 ? reload(line) : units_.begin(line); break;
      case Verb::kOffload: offload(line); break;
      default: units_.begin(line);
    }
  }

  void reload(const Instr& line) {
    if (!line.axes.empty()) drop_after(MemoryKind::kActivations, slice_bytes(line.value));
    values_.put(line.value, line.mb);
  }

  // An offloaded shard is in memory until a line waits for the end of its transfer, or the step ends.
  void offload(const Instr& line) {
    if (!line.axes.empty()) {
      add(MemoryKind::kActivations, slice_bytes(line.value));
      return values_.release(values_.copy(line.value, line.mb));
    }
    leaving_.push_back(static_cast<int>(&line - list_.data()));
    if (line.unit >= 0) units_.begin(line);
  }

  // Before the line that waits for it takes its own.
  void gone(const Instr& line) {
    if (line.value < 0) return units_.gone(line);
    if (values_.let_go(values_.copy(line.value, line.mb)))
      add(MemoryKind::kActivations, -plan_.program.values[line.value].bytes);
  }

  // A tp rank's part of a value, in whole elements.
  std::int64_t slice_bytes(ValueId value) const {
    const auto element =
        static_cast<std::int64_t>(size_of(value_type(recipe_, plan_.program.values[value])));
    const std::int64_t ranks = plan_.mesh.degree(Axis::kTp);
    const std::int64_t count = plan_.program.values[value].bytes / element;
    return (count + ranks - 1) / ranks * element;
  }

  void forward(const Instr& line) {
    for (ValueId value : of(line).writes) values_.put(value, line.mb);
    const Node& node = of(line);
    if (line.keep) keep(line);
    transient(MemoryKind::kWork,
              line.keep ? dropped_bytes(node) + node.work.forward : node.work.passing);
  }

  void recompute(const Instr& line) {
    const std::vector<ValueId>& recomputed = retired_[&line - list_.data()].writes;
    for (ValueId value : of(line).writes) {
      if (contains(recomputed, value))
        values_.put(value, line.mb);
      else
        transient(MemoryKind::kActivations, plan_.program.values[value].bytes);
    }
    keep(line);
    const Node& node = of(line);
    transient(MemoryKind::kWork, dropped_bytes(node) + node.work.forward);
  }

  void keep(const Instr& line) {
    const Node& node = of(line);
    add(MemoryKind::kActivations, kept_bytes(node));
    values_.keep_inputs(line.node, line.mb);
  }

  // `left` bytes stay for the weight half.
  void backward(const Instr& line, std::int64_t left) {
    const Node& node = of(line);
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

  void retire(std::size_t index) {
    for (const auto& [value, mb] : retired_[index].values) values_.release(values_.copy(value, mb));
    for (UnitId unit : retired_[index].gradients) units_.complete(unit, of(list_[index]).chunk);
  }

  // What is sent is kept until a line waits for it to have left, or the step ends.
  void send(const Instr& line) {
    if (!line.gradient) values_.hold(values_.copy(line.value, line.mb));
    sent_.push_back(static_cast<int>(&line - list_.data()));
  }
  void left(int index) {
    const Queue queue = queue_of(list_[index]);
    if (queue.lane == Lane::kD2h)
      std::erase_if(leaving_, [&](int earlier) {
        if (earlier > index) return false;
        gone(list_[earlier]);
        return true;
      });
    std::erase_if(sent_, [&](int earlier) {
      const Instr& line = list_[earlier];
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
  GradientFlow flow_;
  std::vector<Retirement> retired_;
  int stage_ = 0;
  std::vector<int> sent_;     // lines whose values may not have left
  std::vector<int> leaving_;  // lines that offload and may not have ended
  Ledger ledger_;
  UnitAccount units_;
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
    if (part.recomputed) bytes += std::min(part.saved_bytes, part.work_bytes);
  return bytes;
}

MemoryAccount memory_account(const PlanSet& plan, int rank) { return Account(plan, rank).run(); }

}  // namespace trireme::plan
