// Exchange: what collectives are made of, a round of stamped messages among some ranks of a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trireme/comm/transport.h"
#include "trireme/comm/tree_sum.h"

namespace trireme::comm {

// Thrown when a rank's stamp differs from what this one runs.
struct Mismatch {
  int rank;
  Stamp mine;
  Stamp theirs;
};

struct Slice {
  std::size_t begin = 0;  // bytes
  std::size_t bytes = 0;
};
using Slices = std::vector<Slice>;
// Slices of so many elements, one after the other.
Slices slices_of(std::span<const std::int64_t> counts, DType type);

// What lies between `begin` and `end` of each slice.
Slices cut(const Slices& slices, std::size_t begin, std::size_t end);

// Every rank exchanges directly with every other. Ranks are indices among the participants; the functions block, and
// throw Lost, Mismatch or Error.
class Exchange {
 public:
  // `ranks`: the world ranks that take part; `rank`: this one's position.
  Exchange(Transport& transport, std::vector<int> ranks, int rank)
      : transport_(transport), ranks_(std::move(ranks)), rank_(rank) {}

  std::size_t size() const { return ranks_.size(); }
  std::size_t own() const { return static_cast<std::size_t>(rank_); }

  // Sets the operation of the next messages.
  void begin(const Stamp& stamp) { current_ = stamp; }
  void go(Way way) { current_.way = way; }

  // Messages on their way, both ways.
  struct Flight {
    std::vector<std::unique_ptr<Outgoing>> sent;
    std::vector<std::unique_ptr<Incoming>> coming;
    void finish();
  };
  // Sends data + to[p] to every other rank p and writes the message of rank p to into + from[p]. start_swap() blocks
  // only until all have announced their messages; flights are finished in order.
  void swap(const std::byte* data, const Slices& to, std::byte* into, const Slices& from) {
    start_swap(data, to, into, from).finish();
  }
  Flight start_swap(const std::byte* data, const Slices& to, std::byte* into, const Slices& from);
  // As swap, with out = the reduction of the messages and of the own data + to[own].
  void add(const std::byte* data, const Slices& to, const Reduction& reduction, std::byte* out);
  // Adds slice p of everybody's data at p, and puts the sum where the addends were found.
  void add_there_and_back(std::byte* data, const Slices& slices, const Reduction& reduction);
  // data = root's data: root sends each rank its slice, which that rank passes on; or the whole to each.
  void spread(std::byte* data, const Slices& slices, int root);
  void spread(std::byte* data, std::size_t bytes, int root);
  void send(const std::byte* data, std::size_t bytes, int to) { post(data, bytes, to)->finish(); }
  void recv(std::byte* into, std::size_t bytes, int from);
  // Starts a send.
  std::unique_ptr<Outgoing> post(const std::byte* data, std::size_t bytes, int to);
  // Sends to one rank what another one's message does not overwrite.
  void pass(const std::byte* data, std::size_t bytes, int to, std::byte* into, std::size_t expected,
            int from);

 private:
  using Sent = std::vector<std::unique_ptr<Outgoing>>;
  Sent post(const std::byte* data, const Slices& to);
  void reduce_messages(const std::byte* own, std::size_t bytes, const Reduction& reduction,
                       std::byte* out);
  void check(Incoming& message, int peer, std::size_t bytes) const;
  Stamp stamp(std::size_t bytes) const;
  int rank_of(int peer) const { return ranks_[peer]; }
  int others() const { return static_cast<int>(ranks_.size()) - 1; }
  // The i-th other rank, starting after this one so that ranks do not all begin with rank 0.
  int other(int i) const { return (rank_ + 1 + i) % static_cast<int>(ranks_.size()); }

  Transport& transport_;
  std::vector<int> ranks_;
  int rank_;
  Stamp current_;
};

}  // namespace trireme::comm
