#include "trireme/comm/collectives.h"

#include <algorithm>

#include "trireme/comm/copy_bytes.h"
#include "trireme/comm/tree_sum.h"

namespace trireme::comm {
namespace {

// Up to here one message of everything beats two rounds of slices.
constexpr std::size_t kSmall = 8 * 1024;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

std::size_t bytes_of(const Operation& op) {
  return static_cast<std::size_t>(op.count()) * size_of(op.type);
}

void finish(const std::vector<std::unique_ptr<Outgoing>>& messages) {
  for (const auto& message : messages) message->finish();
}

}  // namespace

void Collectives::run(const Operation& op, std::uint64_t sequence) {
  const bool pair = op.verb == Verb::kSend || op.verb == Verb::kRecv;
  current_ = {.sequence = sequence,
              .count = op.verb == Verb::kAllToAll ? 0 : op.count(),
              .root = op.verb == Verb::kBroadcast ? op.peer : 0,
              // Both ends of a message bear the sender's verb.
              .verb = pair ? Verb::kSend : op.verb,
              .reduce = op.reduce,
              .type = op.type};
  switch (op.verb) {
    case Verb::kAllReduce: return all_reduce(op);
    case Verb::kReduceScatter: return reduce_scatter(op, slices_of(op.in_counts, op.type));
    case Verb::kAllGather: return all_gather(op);
    case Verb::kBroadcast: return broadcast(op);
    case Verb::kAllToAll: return all_to_all(op);
    case Verb::kSend: return send(op);
    case Verb::kRecv: return recv(op);
    case Verb::kBarrier: {
      const Slices none(index(size_));
      return exchange(nullptr, none, nullptr, none);
    }
  }
}

Collectives::Slices Collectives::slices_of(const std::vector<std::int64_t>& counts, DType type) {
  Slices slices;
  std::size_t begin = 0;
  for (std::int64_t count : counts) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    slices.push_back({begin, bytes});
    begin += bytes;
  }
  return slices;
}

void Collectives::all_reduce(const Operation& op) {
  const std::size_t bytes = bytes_of(op);
  if (bytes <= kSmall) {
    // Peers read the input while the result is written: they get a copy.
    const std::vector<std::byte> input(op.in, op.in + bytes);
    const auto sent = post(input.data(), Slices(index(size_), Slice{0, bytes}));
    reduce_messages(op, input.data(), bytes, op.out);
    return finish(sent);
  }
  // Each rank adds one slice of all ranks and writes the sum where it found the addends.
  const Slices slices = slices_of(op.in_counts, op.type);
  const Slice mine = slices[own()];
  current_.way = Way::kThereAndBack;
  const auto sent = post(op.out, slices);
  reduce_messages(op, op.out + mine.begin, mine.bytes, op.out + mine.begin);
  finish(sent);
}

void Collectives::reduce_scatter(const Operation& op, const Slices& slices) {
  const auto sent = post(op.in, slices);
  const Slice mine = slices[own()];
  reduce_messages(op, op.in + mine.begin, mine.bytes, op.out);
  finish(sent);
}

void Collectives::all_gather(const Operation& op) {
  const Slices slices = slices_of(op.out_counts, op.type);
  const Slice mine = slices[own()];
  if (op.out + mine.begin != op.in) copy_bytes(op.out + mine.begin, op.in, mine.bytes);
  exchange(op.out, Slices(index(size_), mine), op.out, slices);
}

void Collectives::broadcast(const Operation& op) {
  const bool root = rank_ == op.peer;
  const std::size_t bytes = bytes_of(op);
  const bool small = bytes <= kSmall;
  const Slices slices =
      small ? Slices(index(size_), Slice{0, bytes}) : slices_of(op.in_counts, op.type);
  if (root) {
    finish(post(op.out, slices));
  } else {
    const auto message = transport_.recv(op.peer);
    check(*message, op.peer, slices[own()].bytes);
    message->land(op.out + slices[own()].begin);
    message->finish();
  }
  if (small) return;
  // Every rank but the root passes its slice on; the root has them all.
  current_.way = Way::kOn;
  Slices to(index(size_), slices[own()]);
  to[index(op.peer)].bytes = 0;
  exchange(op.out, to, op.out, root ? Slices(index(size_)) : slices);
}

void Collectives::all_to_all(const Operation& op) {
  const Slices to = slices_of(op.in_counts, op.type);
  const Slices from = slices_of(op.out_counts, op.type);
  copy_bytes(op.out + from[own()].begin, op.in + to[own()].begin, to[own()].bytes);
  exchange(op.in, to, op.out, from);
}

void Collectives::send(const Operation& op) {
  transport_.send(op.peer, stamp(bytes_of(op)), const_cast<std::byte*>(op.in))->finish();
}

void Collectives::recv(const Operation& op) {
  const auto message = transport_.recv(op.peer);
  check(*message, op.peer, bytes_of(op));
  message->land(op.out);
  message->finish();
}

void Collectives::exchange(const std::byte* data, const Slices& to, std::byte* into,
                           const Slices& from) {
  const auto sent = post(data, to);
  std::vector<std::unique_ptr<Incoming>> messages;
  for (int i = 0; i + 1 < size_; ++i) messages.push_back(transport_.recv(other(i)));
  for (int i = 0; i + 1 < size_; ++i) {
    const Slice slice = from[index(other(i))];
    check(*messages[index(i)], other(i), slice.bytes);
    messages[index(i)]->land(into + slice.begin);
  }
  for (auto& message : messages) {
    message->finish();
    message.reset();
  }
  finish(sent);
}

void Collectives::reduce_messages(const Operation& op, const std::byte* own_input,
                                  std::size_t bytes, std::byte* out) {
  std::vector<std::unique_ptr<Incoming>> messages(index(size_));
  for (int i = 0; i + 1 < size_; ++i) messages[index(other(i))] = transport_.recv(other(i));
  for (int i = 0; i + 1 < size_; ++i) check(*messages[index(other(i))], other(i), bytes);
  for (int i = 0; i + 1 < size_; ++i) messages[index(other(i))]->stream();
  std::vector<const void*> leaves(index(size_));
  std::vector<void*> outs(current_.way == Way::kThereAndBack ? index(size_) : 1);
  const std::size_t step = transport_.chunk();
  for (std::size_t begin = 0; begin < bytes; begin += step) {
    for (int i = 0; i + 1 < size_; ++i) {
      std::byte* lent = messages[index(other(i))]->lend();
      leaves[index(other(i))] = lent;
      if (outs.size() > 1) outs[index(1 + i)] = lent;
    }
    leaves[own()] = own_input + begin;
    outs[0] = out + begin;
    const std::size_t count = std::min(step, bytes - begin) / size_of(op.type);
    tree_reduce(outs, leaves, static_cast<std::int64_t>(count), op.type, op.reduce);
    for (int i = 0; i + 1 < size_; ++i) messages[index(other(i))]->release();
  }
  for (int i = 0; i + 1 < size_; ++i) messages[index(other(i))]->finish();
}

std::vector<std::unique_ptr<Outgoing>> Collectives::post(const std::byte* data, const Slices& to) {
  std::vector<std::unique_ptr<Outgoing>> messages;
  for (int i = 0; i + 1 < size_; ++i) {
    const Slice slice = to[index(other(i))];
    messages.push_back(
        transport_.send(other(i), stamp(slice.bytes), const_cast<std::byte*>(data) + slice.begin));
  }
  return messages;
}

void Collectives::check(Incoming& message, int peer, std::size_t bytes) const {
  const Stamp mine = stamp(bytes);
  const Stamp& theirs = message.stamp();
  if (!(mine == theirs)) throw Mismatch{peer, mine, theirs};
}

Stamp Collectives::stamp(std::size_t bytes) const {
  Stamp stamp = current_;
  stamp.bytes = bytes;
  return stamp;
}

}  // namespace trireme::comm
