#include "trireme/plan/passes/p2p.h"

#include <algorithm>
#include <ranges>

namespace trireme::plan {
namespace {

bool reads(const Node& node, ValueId value) {
  return std::ranges::find(node.reads, value) != node.reads.end();
}

// A value that crosses into or out of this stage.
struct Crossing {
  ValueId value = -1;
  NodeId writer = -1;
  int from = 0;
  int to = 0;
};

// In the order of their writers.
std::vector<Crossing> crossings(const Stage& stage) {
  const std::vector<NodeId> writer = writers(stage.program);
  std::vector<Crossing> all;
  for (ValueId value = 0; value < static_cast<ValueId>(writer.size()); ++value)
    for (int to : remote_readers(stage.program, value)) {
      const int from = stage.node(writer[value]).stage;
      if (from == stage.index || to == stage.index)
        all.push_back({.value = value, .writer = writer[value], .from = from, .to = to});
    }
  std::ranges::stable_sort(all, {}, &Crossing::writer);
  return all;
}

// Position of the line where micro-batch mb of a crossing is first needed or last touched.
class Positions {
 public:
  Positions(const Stage& stage, const List& list) : stage_(stage), list_(list) {}

  std::size_t of(Verb verb, NodeId node, int mb) const {
    return static_cast<std::size_t>(std::ranges::find_if(list_,
                                                         [&](const Instr& line) {
                                                           return line.verb == verb &&
                                                                  line.node == node &&
                                                                  line.mb == mb;
                                                         }) -
                                    list_.begin());
  }
  std::size_t first_read(ValueId value, int mb) const { return reader(Verb::kForward, value, mb); }
  // Backward runs from the last node to the first: the first reader's backward is the last.
  std::size_t last_backward(ValueId value, int mb) const {
    return reader(Verb::kBackward, value, mb);
  }

 private:
  std::size_t reader(Verb verb, ValueId value, int mb) const {
    for (NodeId node = 0; node < stage_.node_count(); ++node)
      if (stage_.runs(node) && reads(stage_.node(node), value) &&
          (verb == Verb::kForward || stage_.has_backward(node)))
        return of(verb, node, mb);
    return list_.size();
  }

  const Stage& stage_;
  const List& list_;
};

Instr transfer(Verb verb, const Crossing& crossing, int mb, bool gradient) {
  const bool outward =
      (verb == Verb::kSend) != gradient;  // from the writer's stage's point of view
  return {.verb = verb,
          .lane = gradient ? Lane::kUp : Lane::kDown,
          .value = crossing.value,
          .mb = mb,
          .peer = outward ? crossing.to : crossing.from,
          .gradient = gradient};
}

void values_forward(const Stage& stage, const std::vector<Crossing>& all, const Positions& at,
                    int mb, std::size_t end, Insertion& insertion) {
  for (const Crossing& crossing : all)
    if (crossing.from == stage.index)
      insertion.after(at.of(Verb::kForward, crossing.writer, mb),
                      transfer(Verb::kSend, crossing, mb, false));
  // No later than any value written after it is needed.
  std::vector<std::pair<std::size_t, Instr>> receives;
  std::size_t needed = end;
  for (const Crossing& crossing : all | std::views::reverse) {
    if (crossing.to != stage.index) continue;
    needed = std::min(needed, at.first_read(crossing.value, mb));
    receives.emplace_back(needed, transfer(Verb::kRecv, crossing, mb, false));
  }
  for (auto& [position, line] : receives | std::views::reverse) insertion.before(position, line);
}

void gradients_back(const Stage& stage, const std::vector<Crossing>& all, const Positions& at,
                    int mb, Insertion& insertion) {
  std::size_t ready = 0;
  for (const Crossing& crossing : all | std::views::reverse) {
    if (!gives_gradient(stage.program, stage.flow, crossing.value, crossing.to)) continue;
    if (crossing.to == stage.index) {
      ready = std::max(ready, at.last_backward(crossing.value, mb));
      insertion.after(ready, transfer(Verb::kSend, crossing, mb, true));
    } else {
      insertion.before(at.of(Verb::kBackward, crossing.writer, mb),
                       transfer(Verb::kRecv, crossing, mb, true));
    }
  }
}

}  // namespace

List p2p(const Stage& stage, List list) {
  const std::vector<Crossing> all = crossings(stage);
  if (all.empty()) return list;
  const Positions at(stage, list);
  Insertion insertion(list);
  for (int mb = 0; mb < stage.recipe.micro_batches; ++mb) {
    values_forward(stage, all, at, mb, list.size(), insertion);
    gradients_back(stage, all, at, mb, insertion);
  }
  return insertion.build();
}

}  // namespace trireme::plan
