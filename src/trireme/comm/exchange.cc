#include "trireme/comm/exchange.h"

#include <algorithm>

namespace trireme::comm {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// First what leaves only while its sender waits for it: a rank that waited for the others meanwhile could be
// one of a circle.
void finish(const std::vector<std::unique_ptr<Outgoing>>& messages) {
  for (const bool alone : {false, true})
    for (const auto& message : messages)
      if (message->leaves_alone() == alone) message->finish();
}

}  // namespace

Slices slices_of(std::span<const std::int64_t> counts, DType type) {
  Slices slices;
  std::size_t begin = 0;
  for (std::int64_t count : counts) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    slices.push_back({begin, bytes});
    begin += bytes;
  }
  return slices;
}

Slices cut(const Slices& slices, std::size_t begin, std::size_t end) {
  Slices parts;
  for (const Slice& slice : slices) {
    const std::size_t from = std::min(begin, slice.bytes), to = std::min(end, slice.bytes);
    parts.push_back({slice.begin + from, to - from});
  }
  return parts;
}

void Exchange::Flight::finish() {
  for (auto& message : coming) {
    message->finish();
    message.reset();
  }
  comm::finish(sent);
}

Exchange::Flight Exchange::start_swap(const std::byte* data, const Slices& to, std::byte* into,
                                      const Slices& from) {
  Flight flight{post(data, to), {}};
  for (int i = 0; i < others(); ++i) flight.coming.push_back(transport_.recv(rank_of(other(i))));
  for (int i = 0; i < others(); ++i) {
    const Slice slice = from[index(other(i))];
    check(*flight.coming[index(i)], other(i), slice.bytes);
    flight.coming[index(i)]->land(into + slice.begin);
  }
  return flight;
}

void Exchange::add(const std::byte* data, const Slices& to, const Reduction& reduction,
                   std::byte* out) {
  const Sent sent = post(data, to);
  const Slice mine = to[own()];
  reduce_messages(data + mine.begin, mine.bytes, reduction, out);
  finish(sent);
}

void Exchange::add_there_and_back(std::byte* data, const Slices& slices,
                                  const Reduction& reduction) {
  go(Way::kThereAndBack);
  add(data, slices, reduction, data + slices[own()].begin);
}

void Exchange::spread(std::byte* data, const Slices& slices, int root) {
  if (rank_ == root) {
    finish(post(data, slices));
  } else {
    recv(data + slices[own()].begin, slices[own()].bytes, root);
  }
  // Every rank but the root passes its slice on; the root has them all.
  go(Way::kOn);
  Slices to(size(), slices[own()]);
  to[index(root)].bytes = 0;
  swap(data, to, data, rank_ == root ? Slices(size()) : slices);
}

void Exchange::spread(std::byte* data, std::size_t bytes, int root) {
  if (rank_ != root) return recv(data, bytes, root);
  finish(post(data, Slices(size(), Slice{0, bytes})));
}

std::unique_ptr<Outgoing> Exchange::post(const std::byte* data, std::size_t bytes, int to) {
  return transport_.send(rank_of(to), stamp(bytes), const_cast<std::byte*>(data));
}

void Exchange::pass(const std::byte* data, std::size_t bytes, int to, std::byte* into,
                    std::size_t expected, int from) {
  const auto sent = post(data, bytes, to);
  recv(into, expected, from);
  sent->finish();
}

void Exchange::recv(std::byte* into, std::size_t bytes, int from) {
  const auto message = transport_.recv(rank_of(from));
  check(*message, from, bytes);
  message->land(into);
  message->finish();
}

void Exchange::reduce_messages(const std::byte* own_input, std::size_t bytes,
                               const Reduction& reduction, std::byte* out) {
  std::vector<std::unique_ptr<Incoming>> messages(size());
  for (int i = 0; i < others(); ++i) messages[index(other(i))] = transport_.recv(rank_of(other(i)));
  for (int i = 0; i < others(); ++i) check(*messages[index(other(i))], other(i), bytes);
  for (int i = 0; i < others(); ++i) messages[index(other(i))]->stream();
  std::size_t step = bytes;
  for (int i = 0; i < others(); ++i) step = std::min(step, messages[index(other(i))]->chunk());
  std::vector<std::byte*> lent(size());
  std::vector<const void*> leaves(size());
  std::vector<void*> outs(current_.way == Way::kThereAndBack ? size() : 1);
  for (std::size_t begin = 0; begin < bytes; begin += step) {
    for (int i = 0; i < others(); ++i) {
      const std::size_t at = index(other(i)), within = begin % messages[at]->chunk();
      if (within == 0) lent[at] = messages[at]->lend();
      leaves[at] = lent[at] + within;
      if (outs.size() > 1) outs[index(1 + i)] = lent[at] + within;
    }
    leaves[own()] = own_input + begin;
    outs[0] = out + begin / size_of(reduction.from) * size_of(reduction.to);
    const std::size_t end = std::min(begin + step, bytes);
    tree_reduce(outs, leaves, static_cast<std::int64_t>((end - begin) / size_of(reduction.from)),
                reduction);
    for (int i = 0; i < others(); ++i) {
      Incoming& message = *messages[index(other(i))];
      if (end == bytes || end % message.chunk() == 0) message.release();
    }
  }
  for (int i = 0; i < others(); ++i) messages[index(other(i))]->finish();
}

Exchange::Sent Exchange::post(const std::byte* data, const Slices& to) {
  Sent messages;
  for (int i = 0; i < others(); ++i) {
    const Slice slice = to[index(other(i))];
    messages.push_back(post(data + slice.begin, slice.bytes, other(i)));
  }
  return messages;
}

void Exchange::check(Incoming& message, int peer, std::size_t bytes) const {
  const Stamp mine = stamp(bytes);
  const Stamp& theirs = message.stamp();
  if (!(mine == theirs)) throw Mismatch{rank_of(peer), mine, theirs};
}

Stamp Exchange::stamp(std::size_t bytes) const {
  Stamp stamp = current_;
  stamp.bytes = bytes;
  return stamp;
}

}  // namespace trireme::comm
