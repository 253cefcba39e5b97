#include "trireme/plan/passes/lower.h"

#include <algorithm>
#include <set>

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
  const std::vector<NodeId>& nodes(const Action& action) const {
    return chunks_[static_cast<std::size_t>(action.chunk)];
  }
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
      list_.push_back({.verb = Verb::kForward,
                       .node = node,
                       .mb = action.mb,
                       .keep = stage_.has_backward(node)});
  }

  // The verb by which a node takes part, if it does.
  std::optional<Verb> verb(NodeId node, Work work) const {
    if (work == Work::kBackward) return Verb::kBackward;
    const Node& one = stage_.node(node);
    const bool inputs = std::ranges::any_of(one.reads, [&](ValueId value) {
      return stage_.flow.value_has_grad[static_cast<std::size_t>(value)];
    });
    const bool weights = std::ranges::any_of(one.units, [&](UnitId unit) {
      return stage_.program.units[static_cast<std::size_t>(unit)].trainable;
    });
    const bool input_half = work == Work::kBackwardInput;
    if (inputs && weights && one.split)
      return input_half ? Verb::kBackwardInput : Verb::kBackwardWeight;
    return inputs == input_half ? std::optional(Verb::kBackward) : std::nullopt;
  }

  void backward(const Action& action) {
    const std::vector<NodeId>& all = nodes(action);
    for (std::size_t i = all.size(); i-- > 0;) {
      if (!stage_.has_backward(all[i])) continue;
      if (const std::optional<Verb> how = verb(all[i], action.work))
        list_.push_back({.verb = *how, .node = all[i], .mb = action.mb});
    }
  }

  const Stage& stage_;
  std::vector<ValueId> inputs_;
  std::vector<std::vector<NodeId>> chunks_;
  std::set<int> loaded_;
  List list_;
};

}  // namespace

List lower(const Stage& stage, std::span<const schedules::Action> row) {
  return Lowering(stage).run(row);
}

}  // namespace trireme::plan
