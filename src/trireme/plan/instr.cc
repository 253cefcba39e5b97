#include "trireme/plan/instr.h"

#include "trireme/plan/text/instr_fields.h"
#include "trireme/plan/verbs.h"

namespace trireme::plan {

bool adds_gradients(const Instr& line) {
  return line.verb == Verb::kBackward || line.verb == Verb::kBackwardWeight;
}

bool gives_gradients(const Instr& line) {
  return line.verb == Verb::kBackward || line.verb == Verb::kBackwardInput;
}

bool reads_values(const Instr& line) {
  return line.verb == Verb::kForward || line.verb == Verb::kRecompute || gives_gradients(line);
}

bool uses_parameters(const Node& node, const Instr& line) {
  return reads_values(line) && !(node.looks_up && gives_gradients(line));
}

bool computes(const Instr& line) { return reads_values(line) || adds_gradients(line); }

int times(const Node& node, const NodeExchange& exchange, Verb verb) {
  if (!exchange.part.empty() && !recomputes(node, exchange.part)) return 0;
  switch (verb) {
    case Verb::kForward:
    case Verb::kRecompute: return exchange.forward;
    case Verb::kBackward: return exchange.backward + exchange.weight;
    case Verb::kBackwardInput: return exchange.backward;
    case Verb::kBackwardWeight: return exchange.weight;
    default: return 0;
  }
}

double flops(const Node& node, Verb verb) {
  const double weight = node.split ? node.split->weight_flops : 0;
  const double backward = node.backward_flops.value_or(2 * node.flops) + recompute_flops(node);
  switch (verb) {
    case Verb::kForward:
    case Verb::kRecompute: return node.flops;
    case Verb::kBackward: return backward;
    case Verb::kBackwardInput: return backward - weight;
    case Verb::kBackwardWeight: return weight;
    default: return 0;
  }
}

Lane lane_of(const Instr& line, int stage) {
  if (is_transfer(line)) {
    const bool down = (line.peer > stage) == (line.verb == Verb::kSend);
    return down ? Lane::kDown : Lane::kUp;
  }
  const bool collective = !line.axes.empty();
  if (line.verb == Verb::kOffload && collective) return Lane::kComp;
  if (line.verb == Verb::kReload && collective) return Lane::kDp;
  return info(line.verb).lane;
}

std::string_view name(Verb verb) { return info(verb).name; }

std::string_view name(Lane lane) {
  constexpr std::string_view kNames[kLaneCount] = {"comp", "dp", "up", "down", "h2d", "d2h"};
  return kNames[static_cast<std::size_t>(lane)];
}

std::string_view name(TensorKind tensors) {
  constexpr std::string_view kNames[kPieceCount] = {"", "states", "params", "grads"};
  return kNames[static_cast<std::size_t>(tensors)];
}

}  // namespace trireme::plan
