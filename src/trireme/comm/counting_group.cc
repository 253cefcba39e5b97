#include "trireme/comm/counting_group.h"

namespace trireme::comm {

std::int64_t CountingGroup::elements_sent(const Operation& op) const {
  const auto own = static_cast<std::size_t>(rank());
  const std::int64_t others = size() - 1;
  switch (op.verb) {
    case Verb::kAllReduce:  // addends to their ranks, then the own sums to all
      return total(op.in_counts) - op.in_counts[own] + others * op.in_counts[own];
    case Verb::kReduceScatter:
    case Verb::kAllToAll: return total(op.in_counts) - op.in_counts[own];
    case Verb::kAllGather: return others * op.in_counts[0];
    case Verb::kBroadcast:  // slices to their ranks, which pass them on
      return op.peer == rank() ? total(op.in_counts) - op.in_counts[own]
                               : (others - 1) * op.in_counts[own];
    case Verb::kSend: return op.in_counts[0];
    case Verb::kRecv:
    case Verb::kBarrier: return 0;
  }
  return 0;
}

Ticket CountingGroup::start(Operation op) {
  entries_.push_back({op.verb, op.count(), op.type});
  bytes_sent_ += elements_sent(op) * static_cast<std::int64_t>(size_of(op.type));
  const ConstBuffer in(op.in, total(op.in_counts), op.type);
  const Buffer out{op.out, total(op.out_counts), op.type};
  switch (op.verb) {
    case Verb::kAllReduce: return inner_.all_reduce(out, op.reduce);
    case Verb::kReduceScatter: return inner_.reduce_scatter_v(in, out, op.in_counts, op.reduce);
    case Verb::kAllGather: return inner_.all_gather_v(in, out, op.out_counts);
    case Verb::kBroadcast: return inner_.broadcast(out, op.peer);
    case Verb::kAllToAll: return inner_.all_to_all(in, op.in_counts, out, op.out_counts);
    case Verb::kSend: return inner_.send(in, op.peer);
    case Verb::kRecv: return inner_.recv(out, op.peer);
    case Verb::kBarrier: return inner_.barrier();
  }
  return {};
}

}  // namespace trireme::comm
