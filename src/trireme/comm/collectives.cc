#include "trireme/comm/collectives.h"

#include "trireme/comm/copy_bytes.h"

namespace trireme::comm {
namespace {

Stamp stamp_of(const Operation& op, std::uint64_t sequence) {
  const bool pair = op.verb == Verb::kSend || op.verb == Verb::kRecv;
  return {.sequence = sequence,
          .count = op.verb == Verb::kAllToAll ? 0 : op.count(),
          .root = op.verb == Verb::kBroadcast ? op.peer : 0,
          // Both ends of a message bear the sender's verb.
          .verb = pair ? Verb::kSend : op.verb,
          .reduce = op.reduce,
          .type = op.type,
          .line = op.line};
}

}  // namespace

Collectives::Collectives(Transport& transport, const std::vector<int>& ranks, int rank,
                         const std::optional<Levels>& levels)
    : all_(transport, ranks, rank) {
  if (levels) hostwise_.emplace(transport, *levels);
}

void Collectives::run(const Operation& op, std::uint64_t sequence) {
  const Stamp stamp = stamp_of(op, sequence);
  if (hostwise_ && hostwise_->run(op, stamp)) return;
  all_.begin(stamp);
  run_flat(op);
}

void Collectives::run_flat(const Operation& op) {
  switch (op.verb) {
    case Verb::kAllReduce: return all_reduce(op);
    case Verb::kReduceScatter: return reduce_scatter(op);
    case Verb::kAllGather: return all_gather(op);
    case Verb::kBroadcast: return broadcast(op);
    case Verb::kAllToAll: return all_to_all(op);
    case Verb::kSend: return all_.send(op.in, op.bytes(), op.peer);
    case Verb::kRecv: return all_.recv(op.out, op.bytes(), op.peer);
    case Verb::kBarrier: {
      const Slices none(all_.size());
      return all_.swap(nullptr, none, nullptr, none);
    }
  }
}

void Collectives::all_reduce(const Operation& op) {
  const auto reduction = Reduction::whole(op.type, op.reduce, all_.size());
  if (op.bytes() > kSmallBytes)
    return all_.add_there_and_back(op.out, slices_of(op.in_counts, op.type), reduction);
  // Peers read the input while the result is written: they get a copy.
  const std::vector<std::byte> input(op.in, op.in + op.bytes());
  all_.add(input.data(), Slices(all_.size(), Slice{0, op.bytes()}), reduction, op.out);
}

void Collectives::reduce_scatter(const Operation& op) {
  all_.add(op.in, slices_of(op.in_counts, op.type),
           Reduction::whole(op.type, op.reduce, all_.size()), op.out);
}

void Collectives::all_gather(const Operation& op) {
  const Slices slices = slices_of(op.out_counts, op.type);
  const Slice mine = slices[all_.own()];
  if (op.out + mine.begin != op.in) copy_bytes(op.out + mine.begin, op.in, mine.bytes);
  all_.swap(op.out, Slices(all_.size(), mine), op.out, slices);
}

void Collectives::broadcast(const Operation& op) {
  if (op.bytes() <= kSmallBytes) return all_.spread(op.out, op.bytes(), op.peer);
  all_.spread(op.out, slices_of(op.in_counts, op.type), op.peer);
}

void Collectives::all_to_all(const Operation& op) {
  const Slices to = slices_of(op.in_counts, op.type);
  const Slices from = slices_of(op.out_counts, op.type);
  const std::size_t own = all_.own();
  copy_bytes(op.out + from[own].begin, op.in + to[own].begin, to[own].bytes);
  all_.swap(op.in, to, op.out, from);
}

}  // namespace trireme::comm
