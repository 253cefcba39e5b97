#include "trireme/plan/passes/schedule.h"

namespace trireme::plan {
namespace {

void forward(const Stage& stage, int mb, List& list) {
  if (!inputs_of_stage(stage.program, stage.index).empty())
    list.push_back({.verb = Verb::kLoad, .mb = mb});
  for (NodeId node = 0; node < stage.node_count(); ++node)
    if (stage.runs(node))
      list.push_back(
          {.verb = Verb::kForward, .node = node, .mb = mb, .keep = stage.has_backward(node)});
}

void backward(const Stage& stage, int mb, List& list) {
  for (NodeId node = stage.node_count(); node-- > 0;)
    if (stage.runs(node) && stage.has_backward(node))
      list.push_back({.verb = Verb::kBackward, .node = node, .mb = mb});
}

}  // namespace

List accumulate(const Stage& stage) {
  List list;
  for (int mb = 0; mb < stage.recipe.micro_batches; ++mb) {
    forward(stage, mb, list);
    backward(stage, mb, list);
  }
  return list;
}

List gpipe(const Stage& stage) {
  List list;
  for (int mb = 0; mb < stage.recipe.micro_batches; ++mb) forward(stage, mb, list);
  for (int mb = 0; mb < stage.recipe.micro_batches; ++mb) backward(stage, mb, list);
  return list;
}

}  // namespace trireme::plan
