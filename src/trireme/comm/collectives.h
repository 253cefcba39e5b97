// Collectives composed from stamped messages: one algorithm, hence one association, for all back ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/comm/operation.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

// Thrown when a peer's stamp differs from what this rank runs.
struct Mismatch {
  int peer;
  Stamp mine;
  Stamp theirs;
};

// Runs operations of rank `rank` of `size` over a transport, one at a time. Every rank exchanges
// its slices directly with every other: bandwidth-optimal (each byte crosses once), and each element
// is added on one rank in the tree of tree_sum.h.
class Collectives {
 public:
  Collectives(Transport& transport, int rank, int size)
      : transport_(transport), rank_(rank), size_(size) {}

  // Blocks until the operation has ended on this rank. `sequence` is its number within the group,
  // or within the pair for send and recv. Throws Lost, Mismatch or Error.
  void run(const Operation& op, std::uint64_t sequence);

 private:
  struct Slice {
    std::size_t begin = 0;  // bytes
    std::size_t bytes = 0;
  };
  using Slices = std::vector<Slice>;

  static Slices slices_of(const std::vector<std::int64_t>& counts, DType type);

  void all_reduce(const Operation& op);
  void reduce_scatter(const Operation& op, const Slices& slices);
  void all_gather(const Operation& op);
  void broadcast(const Operation& op);
  void all_to_all(const Operation& op);
  void send(const Operation& op);
  void recv(const Operation& op);

  // Sends data + to[p] to every other p and lands the other p's message at into + from[p].
  void exchange(const std::byte* data, const Slices& to, std::byte* into, const Slices& from);
  // out = the reduction of one message of `bytes` bytes from every other rank, and of `own`; what came
  // there and back returns as the reduction.
  void reduce_messages(const Operation& op, const std::byte* own, std::size_t bytes,
                       std::byte* out);

  std::vector<std::unique_ptr<Outgoing>> post(const std::byte* data, const Slices& to);
  void check(Incoming& message, int peer, std::size_t bytes) const;
  Stamp stamp(std::size_t bytes) const;
  // The i-th other rank, starting after this one so that ranks do not all begin with rank 0.
  int other(int i) const { return (rank_ + 1 + i) % size_; }
  std::size_t own() const { return static_cast<std::size_t>(rank_); }

  Transport& transport_;
  int rank_;
  int size_;
  Stamp current_;
};

}  // namespace trireme::comm
