#include "trireme/plan/passes/lanes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "trireme/plan/compile/lane_order.h"
#include "trireme/plan/offload.h"

namespace trireme::plan {
namespace {

// Walks a list and remembers the line of every fact that a later line may depend on.
class Dependencies {
 public:
  explicit Dependencies(const Stage& stage) : stage_(stage) {}

  // Lines that must have completed before `line` starts, in any lane.
  std::vector<int> of(const Instr& line) {
    found_.clear();
    if (takes_memory(line)) room();
    switch (line.verb) {
      case Verb::kForward:
      case Verb::kRecompute: computing(line); break;
      case Verb::kBackward:
        computing(line);
        seeded(line);
        adding(line);
        break;
      case Verb::kBackwardInput:
        computing(line);
        seeded(line);
        break;
      case Verb::kBackwardWeight: adding(line); break;
      case Verb::kUnshard:
        // Its memory is what earlier reshards gave back.
        if (last_reshard_ >= 0) found_.push_back(last_reshard_);
        need(updates_, line.unit);
        need(loads_, {line.unit, TensorKind::kParams});
        break;
      case Verb::kSend: need(line.gradient ? gradients_ : values_, {line.value, line.mb}); break;
      case Verb::kReduceGrads:
      case Verb::kSyncTied:
        need(backwards_, line.unit);
        need(loads_, {line.unit, TensorKind::kGrads});
        break;
      case Verb::kGradNorm: found_ = results_; break;
      case Verb::kExchangeUpdate:
        if (line.scatter)
          need(updated_matrices_, line.unit);
        else
          stepping(line.unit);
        break;
      case Verb::kUpdateMatrices:
      case Verb::kStep:
        stepping(line.unit);
        need(exchanges_, line.unit);
        break;
      case Verb::kEma: need(updates_, stage_.program.units[line.unit].ema_of); break;
      case Verb::kOuterReduce: need(updates_, line.unit); break;
      case Verb::kOuterStep: need(merges_, line.unit); break;
      case Verb::kLoad:
      case Verb::kReshard:
      case Verb::kRecv: break;
      case Verb::kOffload: leaving(line); break;
      case Verb::kReload:
        if (line.tensors == TensorKind::kParams && last_reshard_ >= 0)
          found_.push_back(last_reshard_);
        if (line.value >= 0)
          need(left_values_, {line.value, line.mb});
        else
          need(left_, {line.unit, line.tensors});
        break;
    }
    return found_;
  }

  void add(const Instr& line, int index) {
    if (reads_values(line))
      for_inputs(line, [&](const OfBatch& input) { readers_[input] = {index}; });
    switch (line.verb) {
      case Verb::kForward:
        for (ValueId value : stage_.node(line.node).writes) values_[{value, line.mb}] = {index};
        if (stage_.node(line.node).loss) results_ = {index};
        break;
      case Verb::kBackward:
      case Verb::kBackwardInput:
      case Verb::kBackwardWeight:
        if (gives_gradients(line))
          for_inputs(line, [&](const OfBatch& input) { gradients_[input].push_back(index); });
        if (adds_gradients(line))
          for (UnitId unit : trained(line)) backwards_[unit] = {index};
        results_ = {index};
        break;
      case Verb::kRecv:
        (line.gradient ? gradients_ : values_)[{line.value, line.mb}].push_back(index);
        break;
      case Verb::kUnshard: gathers_[line.unit] = {index}; break;
      case Verb::kReshard: last_reshard_ = index; break;
      case Verb::kReduceGrads:
        if (line.scatter && line.mb >= 0) scatters_.push_back(index);
        reductions_[line.unit] = {index};
        break;
      case Verb::kSyncTied: reductions_[line.unit] = {index}; break;
      case Verb::kGradNorm: grad_norm_ = index; break;
      case Verb::kExchangeUpdate: exchanges_[line.unit] = {index}; break;
      case Verb::kUpdateMatrices: updated_matrices_[line.unit] = {index}; break;
      case Verb::kStep:
      case Verb::kEma:
      case Verb::kOuterStep: updates_[line.unit] = {index}; break;
      case Verb::kOuterReduce: merges_[line.unit] = {index}; break;
      case Verb::kOffload:
        if (line.value >= 0)
          left_values_[{line.value, line.mb}] = {index};
        else
          left_[{line.unit, line.tensors}] = {index};
        if (line.lane == Lane::kD2h) leaving_.emplace_back(line, index);
        break;
      case Verb::kReload:
        if (line.value >= 0)
          values_[{line.value, line.mb}] = {index};
        else
          loads_[{line.unit, line.tensors}] = {index};
        break;
      case Verb::kLoad:
      case Verb::kRecompute:
      case Verb::kSend: break;
    }
  }

 private:
  using OfBatch = std::pair<ValueId, int>;  // a value of a micro-batch
  using OfUnit = std::pair<UnitId, TensorKind>;

  template <typename Key>
  void need(const std::map<Key, std::vector<int>>& lines, const Key& key) {
    const auto found = lines.find(key);
    if (found != lines.end())
      found_.insert(found_.end(), found->second.begin(), found->second.end());
  }

  // By the clip factor, and what waits outside memory.
  void stepping(UnitId unit) {
    if (grad_norm_ >= 0) found_.push_back(grad_norm_);
    for (TensorKind tensors : {TensorKind::kStates, TensorKind::kParams, TensorKind::kGrads})
      need(loads_, {unit, tensors});
  }

  void computing(const Instr& line) {
    const Node& node = stage_.node(line.node);
    if (uses_parameters(node, line))
      for (UnitId unit : node.units) {
        need(gathers_, unit);
        need(loads_, {unit, TensorKind::kParams});
      }
    for_inputs(line, [&](const OfBatch& input) { need(values_, input); });
  }

  // What a line that computes reads.
  template <typename Visit>
  void for_inputs(const Instr& line, Visit visit) const {
    const Node& node = stage_.node(line.node);
    for (int mb : batches(node, line.mb, stage_.recipe.micro_batches))
      for (ValueId value : node.reads) visit({value, mb});
  }

  // A backward starts from the gradients of what its node wrote.
  void seeded(const Instr& line) {
    for (ValueId value : stage_.node(line.node).writes) need(gradients_, {value, line.mb});
  }

  void leaving(const Instr& line) {
    if (line.value >= 0) {
      need(values_, {line.value, line.mb});
      need(readers_, {line.value, line.mb});
      return;
    }
    if (line.tensors == TensorKind::kGrads) {
      need(backwards_, line.unit);
      need(reductions_, line.unit);
      return;
    }
    need(updates_, line.unit);
    if (line.tensors == TensorKind::kParams) need(gathers_, line.unit);
  }

  // All but what left last.
  void room() {
    for (std::size_t i = leaving_.size(); i-- > 0;)
      if (!same_subject(leaving_[i].first, leaving_.back().first))
        return found_.push_back(leaving_[i].second);
  }

  void adding(const Instr& line) {
    for (UnitId unit : trained(line)) {
      need(reductions_, unit);
      // Where every micro-batch is reduced, it is that which adds to earlier sums.
      if (!stage_.sharing(unit).scatters_each) need(loads_, {unit, TensorKind::kGrads});
    }
    // Two reductions may be under way while the next gradient is made: their memory is bounded.
    if (scatters_.size() >= 2 && !trained(line).empty())
      found_.push_back(scatters_[scatters_.size() - 2]);
  }

  std::vector<UnitId> trained(const Instr& line) const {
    std::vector<UnitId> units;
    for (UnitId unit : stage_.node(line.node).units)
      if (stage_.program.units[unit].trainable) units.push_back(unit);
    return units;
  }

  const Stage& stage_;
  std::vector<int> found_;
  std::map<OfBatch, std::vector<int>> values_;
  std::map<OfBatch, std::vector<int>> gradients_;
  std::map<OfBatch, std::vector<int>> readers_;
  std::map<OfBatch, std::vector<int>> left_values_;
  std::map<OfUnit, std::vector<int>> left_;
  std::map<OfUnit, std::vector<int>> loads_;
  std::vector<std::pair<Instr, int>> leaving_;  // lines that send something away
  std::map<UnitId, std::vector<int>> gathers_;
  std::map<UnitId, std::vector<int>> backwards_;
  std::map<UnitId, std::vector<int>> reductions_;
  std::map<UnitId, std::vector<int>> exchanges_, updated_matrices_;
  std::map<UnitId, std::vector<int>> updates_;
  std::map<UnitId, std::vector<int>> merges_;
  std::vector<int> scatters_;  // of single micro-batches
  std::vector<int> results_;   // the last line that made a gradient or a loss
  int last_reshard_ = -1;
  int grad_norm_ = -1;
};

// Makes the rank wait at a send until an earlier one of the same value has left, so that the number of pending sends is
// bounded.
class Unsent {
 public:
  explicit Unsent(int most) : most_(static_cast<std::size_t>(most)) {}
  void limit(Instr& line, int index) {
    std::vector<int>& earlier = sends_[{line.peer, line.value, line.gradient}];
    if (earlier.size() >= most_) {
      line.after.push_back(earlier[earlier.size() - most_]);
      std::ranges::sort(line.after);
    }
    earlier.push_back(index);
  }

 private:
  std::size_t most_;
  std::map<std::tuple<int, ValueId, bool>, std::vector<int>> sends_;
};

}  // namespace

List lanes(const Stage& stage, List list) {
  Unsent unsent(stage.recipe.unsent);
  Dependencies dependencies(stage);
  LaneOrder order;
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].after = order.needed(queue_of(list[i]), dependencies.of(list[i]));
    if (list[i].verb == Verb::kSend) unsent.limit(list[i], static_cast<int>(i));
    order.push(queue_of(list[i]), list[i].after);
    dependencies.add(list[i], static_cast<int>(i));
  }
  return list;
}

}  // namespace trireme::plan
