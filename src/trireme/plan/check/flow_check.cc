#include <algorithm>
#include <utility>

#include "trireme/plan/check/list_check.h"

namespace trireme::plan {
namespace {

// How many nodes of the stage give the value a gradient.
int local_sources(const ListView& view, ValueId value) {
  int count = 0;
  for (std::size_t n = 0; n < view.program().nodes.size(); ++n) {
    const Node& node = view.program().nodes[n];
    count +=
        node.stage == view.stage && view.flow.node_has_backward[n] && contains(node.reads, value);
  }
  return count;
}

int remote_sources(const ListView& view, ValueId value) {
  int count = 0;
  for (int stage : remote_readers(view.program(), value))
    count += gives_gradient(view.program(), view.flow, value, stage);
  return count;
}

}  // namespace

void FlowCheck::line(int index) {
  const Instr& line = view_.list[index];
  if (computes(line)) follow_segment(index, line);
  switch (line.verb) {
    case Verb::kLoad:
      for (ValueId value : inputs_of_stage(view_.program(), view_.stage))
        put(index, value, line.mb, true);
      break;
    case Verb::kForward: forward(index, line); break;
    case Verb::kRecompute: recompute(index, line); break;
    case Verb::kBackward:
    case Verb::kBackwardInput: backward(index, line); break;
    case Verb::kBackwardWeight: backward_weight(index, line); break;
    case Verb::kSend: send(index, line); break;
    case Verb::kRecv: recv(index, line); break;
    default: break;
  }
}

void FlowCheck::put(int index, ValueId value, int mb, bool must_be_read) {
  const auto [made, fresh] =
      values_.insert({{value, mb}, {.line = index, .must_be_read = must_be_read, .read = false}});
  if (!fresh)
    view_.refuse(index, "{} of micro-batch {} is there since line {}",
                 view_.program().values[value].name, mb, made->second.line);
}

// A segment is recomputed right before the first backward of its nodes.
void FlowCheck::follow_segment(int index, const Instr& line) {
  const std::optional<Instr> before = std::exchange(last_recompute_, std::nullopt);
  if (line.verb == Verb::kRecompute) last_recompute_ = line;
  if (!before) return;
  const bool follows = view_.node(line.node).segment == view_.node(before->node).segment &&
                       line.mb == before->mb && line.verb != Verb::kForward;
  if (!follows)
    view_.refuse(index, "is between recompute {} mb={} and the backward of its segment",
                 view_.node(before->node).name, before->mb);
}

void FlowCheck::read_inputs(int index, const Instr& line) {
  const Node& node = view_.node(line.node);
  for (ValueId value : node.reads)
    for (int mb : batches(node, line.mb, view_.plan.recipe.micro_batches)) {
      const std::string& name = view_.program().values[value].name;
      const auto made = values_.find({value, mb});
      if (made == values_.end()) view_.refuse(index, "{} of micro-batch {} is not there", name, mb);
      view_.require_before(made->second.line, index, "which brings " + name);
      made->second.read = true;
    }
}

void FlowCheck::forward(int index, const Instr& line) {
  const Node& node = view_.node(line.node);
  if (!forwarded_.insert({line.node, line.mb}).second) view_.refuse(index, "runs a second time");
  read_inputs(index, line);
  for (ValueId value : node.writes) put(index, value, line.mb, false);
  if (!line.keep) return;
  if (!view_.flow.node_has_backward[line.node]) view_.refuse(index, "keeps, but has no backward");
  if (node.segment >= 0) view_.refuse(index, "keeps, but segment {} is recomputed", node.segment);
  kept_[{line.node, line.mb}] = index;
}

void FlowCheck::recompute(int index, const Instr& line) {
  if (!forwarded_.contains({line.node, line.mb})) view_.refuse(index, "its forward has not run");
  if (backward_done_.contains({line.node, line.mb})) view_.refuse(index, "its backward has run");
  if (view_.node(line.node).segment < 0) view_.refuse(index, "the node is in no segment");
  for (ValueId value : view_.node(line.node).reads)
    if (is_inner(view_.program(), writers_, line.node, value) &&
        !recomputed_.contains({writers_[value], line.mb}))
      view_.refuse(index, "{} of micro-batch {} is gone, and its segment has not written it again",
                   view_.program().values[value].name, line.mb);
  read_inputs(index, line);
  recomputed_.insert({line.node, line.mb});
  const auto [kept, fresh] = kept_.insert({{line.node, line.mb}, index});
  if (!fresh) view_.refuse(index, "line {} has kept what backward needs", kept->second);
}

void FlowCheck::backward(int index, const Instr& line) {
  const Node& node = view_.node(line.node);
  if (backward_done_.contains({line.node, line.mb})) view_.refuse(index, "runs a second time");
  if (kept_.erase({line.node, line.mb}) == 0)
    view_.refuse(index, "no forward or recompute has kept what it needs");
  for (ValueId value : node.writes)
    if (!node.loss && view_.flow.value_has_grad[value])
      require_gradient(index, value, line.mb, true);
  for (ValueId value : node.reads)
    for (int mb : batches(node, line.mb, view_.plan.recipe.micro_batches))
      if (view_.flow.value_has_grad[value]) add_gradient(index, value, mb);
  backward_done_.insert({line.node, line.mb});
  if (line.verb != Verb::kBackwardInput) return;
  if (!node.split) view_.refuse(index, "the node's backward cannot be split");
  halves_[{line.node, line.mb}] = index;
}

void FlowCheck::backward_weight(int index, const Instr& line) {
  if (halves_.erase({line.node, line.mb}) == 0)
    view_.refuse(index, "its backward_input has not run, or its backward_weight has");
}

void FlowCheck::add_gradient(int index, ValueId value, int mb) {
  gradients_[{value, mb}].push_back(index);
}

void FlowCheck::require_gradient(int index, ValueId value, int mb, bool remote) const {
  const std::string& name = view_.program().values[value].name;
  const auto found = gradients_.find({value, mb});
  const int seen = found == gradients_.end() ? 0 : static_cast<int>(found->second.size());
  const int needed = local_sources(view_, value) + (remote ? remote_sources(view_, value) : 0);
  if (needed == 0) view_.refuse(index, "{} has no gradient here", name);
  if (seen != needed)
    view_.refuse(index, "the gradient of {} has {} of {} parts", name, seen, needed);
  for (int part : found->second)
    view_.require_before(part, index, "which adds to the gradient of " + name);
}

void FlowCheck::send(int index, const Instr& line) {
  const std::string& name = view_.program().values[line.value].name;
  const NodeId writer = writers_[line.value];
  if (writer < 0) view_.refuse(index, "{} is an input: load brings it", name);
  if (!transfers_.insert({line.value, line.mb, line.peer, line.gradient}).second)
    view_.refuse(index, "is sent a second time");
  if (line.gradient) {
    if (line.peer != view_.node(writer).stage)
      view_.refuse(index, "stage {} did not write it", line.peer);
    require_gradient(index, line.value, line.mb, false);
    return;
  }
  const auto made = values_.find({line.value, line.mb});
  if (made == values_.end())
    view_.refuse(index, "{} of micro-batch {} is not there", name, line.mb);
  if (view_.node(writer).stage != view_.stage ||
      !contains(remote_readers(view_.program(), line.value), line.peer))
    view_.refuse(index, "{} does not cross from stage {} to stage {}", name, view_.stage,
                 line.peer);
  view_.require_before(made->second.line, index, "which writes " + name);
}

void FlowCheck::recv(int index, const Instr& line) {
  const std::string& name = view_.program().values[line.value].name;
  const NodeId writer = writers_[line.value];
  if (writer < 0) view_.refuse(index, "{} is an input: load brings it", name);
  const int home = view_.node(writer).stage;
  const int reader = line.gradient ? line.peer : view_.stage;
  if ((line.gradient ? view_.stage : line.peer) != home ||
      !contains(remote_readers(view_.program(), line.value), reader))
    view_.refuse(index, "{} does not cross between stages {} and {}", name, view_.stage, line.peer);
  if (!line.gradient) return put(index, line.value, line.mb, true);
  if (!gives_gradient(view_.program(), view_.flow, line.value, line.peer))
    view_.refuse(index, "stage {} gives {} no gradient", line.peer, name);
  if (!transfers_.insert({line.value, line.mb, line.peer, true}).second)
    view_.refuse(index, "is received a second time");
  add_gradient(index, line.value, line.mb);
}

void FlowCheck::finish() {
  const Program& program = view_.program();
  for (NodeId node = 0; node < static_cast<NodeId>(program.nodes.size()); ++node) {
    if (view_.node(node).stage != view_.stage) continue;
    for (int mb = 0; mb < rounds(view_.node(node), view_.plan.recipe.micro_batches); ++mb) {
      if (!forwarded_.contains({node, mb}))
        view_.refuse(-1, "forward {} mb={} is missing", view_.node(node).name, mb);
      if (view_.flow.node_has_backward[node] && !backward_done_.contains({node, mb}))
        view_.refuse(-1, "backward {} mb={} is missing", view_.node(node).name, mb);
    }
  }
  for (const auto& [of_mb, line] : kept_)
    view_.refuse(line, "what it keeps of micro-batch {} is never used", of_mb.second);
  for (const auto& [of_mb, line] : halves_) view_.refuse(line, "its backward_weight is missing");
  for (const auto& [of_mb, made] : values_)
    if (made.must_be_read && !made.read)
      view_.refuse(made.line, "{} is never read", program.values[of_mb.first].name);
}

}  // namespace trireme::plan
