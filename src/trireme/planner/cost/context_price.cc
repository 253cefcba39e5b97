// Seconds that attention waits for other cp ranks.
#include <algorithm>

#include "trireme/model/account/parts.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/planner/cost/pricing.h"

namespace trireme::planner {
namespace {

using plan::Verb;

// The role of a cp exchange of a node.
enum class ContextRole {
  kWaited,      // attention waits for it: keys of all ranks, or heads in exchange for tokens
  kRecomputed,  // a ring's keys and values, for attention that is recomputed in backward
  kKeys,        // a ring's keys and values
  kGradients,   // gradients of a ring's keys and values, which follow them and make one turn more
  kHomeward     // the same in 16 bits, which end at home: each turn sends twice as much
};

ContextRole context_role(const plan::NodeExchange& exchange, const Practice& practice) {
  if (exchange.kind != plan::Exchange::kSendRecv || !practice.overlaps_context)
    return ContextRole::kWaited;
  if (!exchange.part.empty()) return ContextRole::kRecomputed;
  if (exchange.forward > 0) return ContextRole::kKeys;
  return practice.ring_homeward ? ContextRole::kHomeward : ContextRole::kGradients;
}

// A ring of keys and values: seconds of one turn and of the last one home, bytes of a rank's keys.
struct Ring {
  int turns = 0;
  double turn = 0, home = 0, keys = 0;
};

// Seconds of a ring: `first` before anything has arrived, then so many turns of `each`. Data of the next turn travels
// meanwhile.
double turning(double first, double each, int turns, double hop) {
  return std::max(first, hop) + (turns - 1) * std::max(each, hop) + each;
}

}  // namespace

// In addition to its even share of attention. Half of a rank's own block is masked. Then it attends to a whole one at a
// turn, or its results for another rank travel there and back: queries and a result, in backward with gradients.
// `keys`: bytes of a block's.
double Pricing::helped(const NodeCost& cost, bool forward, double keys) const {
  const model::Sizes sizes(job_.model, model::per_rank(job_));
  const auto queries =
      static_cast<double>(sizes.attention.tokens * sizes.attention.q * sizes.element);
  const auto hop = [&](double bytes) {
    return network_.seconds(plan::Exchange::kSendRecv, mesh::Axis::kCp, bytes);
  };
  const int ranks = job_.parallel.cp;
  const double share = forward ? cost.attention : cost.attention_input, block = 2 * share / ranks;
  const double arrives = hop(forward ? std::max(keys, queries) : std::max(2 * keys, 3 * queries));
  const double home = hop(forward ? queries : std::max(keys, queries));
  return turning(block / 2, block, ranks / 2, arrives) + home - share;
}

// Attention waits for gathers and for exchanges of heads for tokens. A ring turns while a rank attends to its present
// block, so that attention waits only for the part of a turn that takes longer. In backward gradients follow their keys
// and values, and the last turn takes them home alone.
double Pricing::context(const plan::Node& node, const NodeCost& cost, Verb verb) const {
  double waited = 0;
  Ring ring;
  for (const plan::NodeExchange& one : node.exchanges) {
    const int times = plan::times(node, one, verb);
    if (times == 0 || !is_over_cp(one)) continue;
    const bool heads = heads_ && one.kind == plan::Exchange::kAllToAll;
    const auto bytes = static_cast<double>(one.bytes);
    const double once = (heads ? *heads_ : network_).seconds(one.kind, one.axes, bytes);
    switch (context_role(one, practice_)) {
      case ContextRole::kWaited: waited += times * once; break;
      case ContextRole::kRecomputed:
        waited += times * std::max(once - cost.attention / (times + 1), 0.0);
        break;
      case ContextRole::kKeys:
        ring.keys = bytes;
        ring.turn += once;
        ring.turns = times;
        break;
      case ContextRole::kGradients:
        ring.turn += once;
        ring.home = once;
        ring.turns = times - 1;
        break;
      case ContextRole::kHomeward: ring.turn *= 2; break;
    }
  }
  if (ring.turns == 0) return waited;
  const bool forward = verb == Verb::kForward || verb == Verb::kRecompute;
  if (practice_.ring_helped) return waited + helped(cost, forward, ring.keys);
  const double share = forward ? cost.attention : cost.attention_input;
  const double even = share / (ring.turns + 1);
  return waited + turning(even, even, ring.turns, ring.turn) + ring.home - share;
}

}  // namespace trireme::planner
