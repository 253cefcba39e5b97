#include "trireme/plan/passes/p2p.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "trireme/plan/actions.h"

namespace trireme::plan {
namespace {

// One transfer of one micro-batch.
struct Message {
  ValueId value = -1;
  int mb = -1;
  bool gradient = false;
  std::size_t made = 0;    // the sender's line that completes it
  std::size_t needed = 0;  // the receiver's first line that uses it
};

// Where the lines of one stage's nodes stand.
class Positions {
 public:
  Positions(const Program& program, const List& list) : program_(program) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].verb == Verb::kForward) forwards_.emplace(key(list[i].node, list[i].mb), i);
      if (gives_gradients(list[i])) backwards_.emplace(key(list[i].node, list[i].mb), i);
    }
    // What is loaded for an action belongs to it.
    for (const ActionLines& one : actions(program, list))
      action_.resize(static_cast<std::size_t>(one.last) + 1, action_.size());
  }

  std::size_t forward(NodeId node, int mb) const { return forwards_.at(key(node, mb)); }
  std::size_t backward(NodeId node, int mb) const { return backwards_.at(key(node, mb)); }
  // The first line of the action before the one that holds `line`.
  std::size_t action_ahead(std::size_t line) const {
    const std::size_t begin = action_[line];
    return begin == 0 ? 0 : action_[begin - 1];
  }

 private:
  std::int64_t key(NodeId node, int mb) const {
    const bool joint = program_.nodes[node].joint;
    return (std::int64_t{node} << 32) | (joint ? 0 : mb);
  }
  const Program& program_;
  std::unordered_map<std::int64_t, std::size_t> forwards_;
  std::unordered_map<std::int64_t, std::size_t> backwards_;
  std::vector<std::size_t> action_;  // of each line: where its action begins
};

class Transfers {
 public:
  Transfers(const Program& program, const GradientFlow& flow, const std::vector<List>& lists)
      : program_(program), flow_(flow), lists_(lists), writer_(writers(program)) {
    for (const List& list : lists) {
      at_.emplace_back(program, list);
      insertions_.emplace_back(list);
    }
  }

  std::vector<List> build() && {
    for (ValueId value = 0; value < static_cast<ValueId>(writer_.size()); ++value)
      for (int reader : remote_readers(program_, value)) cross(value, reader);
    for (auto& [stages, messages] : channels_) insert(stages.first, stages.second, messages);
    std::vector<List> result;
    for (const Insertion& insertion : insertions_) result.push_back(insertion.build());
    return result;
  }

 private:
  void cross(ValueId value, int reader) {
    const NodeId writer = writer_[value];
    const int home = program_.nodes[writer].stage;
    std::vector<NodeId> readers, sources;
    for (NodeId node = 0; node < static_cast<NodeId>(program_.nodes.size()); ++node) {
      const Node& one = program_.nodes[node];
      if (one.stage != reader || !contains(one.reads, value)) continue;
      readers.push_back(node);
      if (flow_.node_has_backward[node]) sources.push_back(node);
    }
    const Positions &here = at_[home], &there = at_[reader];
    const bool back = flow_.value_has_grad[value] && !sources.empty();
    for (const Instr& line : lists_[home]) {
      if (line.verb != Verb::kForward || line.node != writer) continue;
      const int mb = line.mb;
      Message message{.value = value, .mb = mb, .made = here.forward(writer, mb)};
      message.needed = there.forward(readers[0], mb);
      for (NodeId node : readers)
        message.needed = std::min(message.needed, there.forward(node, mb));
      channels_[{home, reader}].push_back(message);
      if (!back) continue;
      message = {.value = value, .mb = mb, .gradient = true, .needed = here.backward(writer, mb)};
      for (NodeId node : sources) message.made = std::max(message.made, there.backward(node, mb));
      channels_[{reader, home}].push_back(message);
    }
  }

  void insert(int from, int to, std::vector<Message>& messages) {
    // What one line makes goes in the order of values.
    std::ranges::stable_sort(messages, {}, &Message::made);
    const Positions& there = at_[to];
    std::size_t needed = lists_[to].size();
    std::vector<std::size_t> posts(messages.size());
    for (std::size_t i = messages.size(); i-- > 0;) {
      needed = std::min(needed, messages[i].needed);
      posts[i] = there.action_ahead(needed);
    }
    const Lane lane = from < to ? Lane::kDown : Lane::kUp;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Instr line{.verb = Verb::kSend,
                 .lane = lane,
                 .value = messages[i].value,
                 .mb = messages[i].mb,
                 .peer = to,
                 .gradient = messages[i].gradient};
      insertions_[from].after(messages[i].made, line);
      line.verb = Verb::kRecv;
      line.peer = from;
      insertions_[to].before(posts[i], line);
    }
  }

  const Program& program_;
  const GradientFlow& flow_;
  const std::vector<List>& lists_;
  std::vector<NodeId> writer_;
  std::vector<Positions> at_;
  std::vector<Insertion> insertions_;
  std::map<std::pair<int, int>, std::vector<Message>> channels_;  // by sending and receiving stage
};

}  // namespace

std::vector<List> p2p(const Program& program, const GradientFlow& flow, std::vector<List> lists) {
  if (lists.size() == 1) return lists;
  return Transfers(program, flow, lists).build();
}

}  // namespace trireme::plan
