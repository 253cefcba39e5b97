#include "trireme/plan/passes/lower.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <utility>

namespace trireme::plan {
namespace {

using schedules::Action;
using schedules::Work;

class Lowering {
 public:
  explicit Lowering(const Stage& stage)
      : stage_(stage), inputs_(inputs_of_stage(stage.program, stage.index)) {
    for (NodeId node = 0; node < stage.node_count(); ++node) {
      if (!stage.runs(node)) continue;
      const auto chunk = static_cast<std::size_t>(stage.node(node).chunk);
      if (chunks_.size() <= chunk) chunks_.resize(chunk + 1);
      chunks_[chunk].push_back(node);
    }
    for (const std::vector<NodeId>& chunk : chunks_) find_early(chunk);
  }

  List run(std::span<const Action> row) && {
    for (const Action& action : row) {
      if (action.work == Work::kForward)
        forward(action);
      else
        backward(action);
    }
    return std::move(list_);
  }

 private:
  const std::vector<NodeId>& nodes(const Action& action) const { return chunks_[action.chunk]; }
  bool reads_input(NodeId node) const {
    return std::ranges::any_of(stage_.node(node).reads, [&](ValueId value) {
      return std::ranges::binary_search(inputs_, value);
    });
  }

  void forward(const Action& action) {
    if (!loaded_.contains(action.mb) &&
        std::ranges::any_of(nodes(action), [&](NodeId node) { return reads_input(node); })) {
      list_.push_back({.verb = Verb::kLoad, .mb = action.mb});
      loaded_.insert(action.mb);
    }
    for (NodeId node : nodes(action))
      if (!stage_.node(node).joint) run_forward(node, action.mb);
    if (++forwards_[action.chunk] == stage_.recipe.micro_batches) run_joint(nodes(action));
  }
  void run_forward(NodeId node, int mb) {
    list_.push_back(
        {.verb = Verb::kForward, .node = node, .mb = mb, .keep = stage_.has_backward(node)});
  }

  // After the results of all micro-batches: losses of all of them, and the gradients that their backwards begin with.
  void run_joint(const std::vector<NodeId>& chunk) {
    const auto joint = [&](NodeId node) { return stage_.node(node).joint; };
    for (NodeId node : chunk | std::views::filter(joint)) run_forward(node, 0);
    for (NodeId node : chunk | std::views::reverse | std::views::filter(joint))
      if (stage_.has_backward(node))
        list_.push_back({.verb = Verb::kBackward, .node = node, .mb = 0});
  }

  bool gives_gradients(NodeId node) const {
    return std::ranges::any_of(stage_.node(node).reads,
                               [&](ValueId value) { return stage_.flow.value_has_grad[value]; });
  }
  bool splits(NodeId node) const { return splits_backward(stage_.program, stage_.flow, node); }
  std::vector<UnitId> trained(NodeId node) const {
    std::vector<UnitId> units;
    for (UnitId unit : stage_.node(node).units)
      if (stage_.program.units[unit].trainable) units.push_back(unit);
    return units;
  }

  // Nodes that add to gradients of units in the input backward, because they have no other, and nodes that share units
  // with them. A unit's gradient belongs to one micro-batch at a time.
  void find_early(const std::vector<NodeId>& chunk) {
    std::set<UnitId> units;
    for (bool found = true; std::exchange(found, false);)
      for (NodeId node : chunk) {
        const std::vector<UnitId> own = trained(node);
        const bool whole = gives_gradients(node) && !splits(node) && !own.empty();
        const bool shares =
            std::ranges::any_of(own, [&](UnitId unit) { return units.contains(unit); });
        if (!stage_.has_backward(node) || !(whole || shares) || !early_.insert(node).second)
          continue;
        units.insert(own.begin(), own.end());
        found = true;
      }
  }

  // The verb by which a node takes part, if it does.
  std::optional<Verb> verb(NodeId node, Work work) const {
    if (work == Work::kBackward) return Verb::kBackward;
    const bool input_half = work == Work::kBackwardInput;
    if (early_.contains(node)) return input_half ? std::optional(Verb::kBackward) : std::nullopt;
    if (splits(node)) return input_half ? Verb::kBackwardInput : Verb::kBackwardWeight;
    return gives_gradients(node) == input_half ? std::optional(Verb::kBackward) : std::nullopt;
  }

  void backward(const Action& action) {
    const std::vector<NodeId>& all = nodes(action);
    for (std::size_t i = all.size(); i-- > 0;) {
      if (!stage_.has_backward(all[i]) || stage_.node(all[i]).joint) continue;
      if (const std::optional<Verb> how = verb(all[i], action.work))
        list_.push_back({.verb = *how, .node = all[i], .mb = action.mb});
    }
  }

  const Stage& stage_;
  std::vector<ValueId> inputs_;
  std::vector<std::vector<NodeId>> chunks_;
  std::set<int> loaded_;
  std::map<int, int> forwards_;  // by chunk: micro-batches so far
  std::set<NodeId> early_;
  List list_;
};

}  // namespace

List lower(const Stage& stage, std::span<const schedules::Action> row) {
  return Lowering(stage).run(row);
}

}  // namespace trireme::plan
