// Group: collective and point-to-point communication among some ranks of a world, over raw memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/comm/operation.h"
#include "trireme/comm/ticket.h"

namespace trireme::comm {

// `count` contiguous elements of `type`; data may be null only where count is 0.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;
  DType type = DType::kU8;
};

struct ConstBuffer {
  ConstBuffer(const void* d, std::int64_t c, DType t) : data(d), count(c), type(t) {}
  ConstBuffer(const Buffer& b) : data(b.data), count(b.count), type(b.type) {}  // NOLINT: implicit
  const void* data = nullptr;
  std::int64_t count = 0;
  DType type = DType::kU8;
};

// One rank's handle on a group. Ranks in this interface are positions in the group, 0 .. size()-1.
//
// Every call returns at once with a Ticket; the buffers are the operation's until its wait() ended. A group is one
// lane: its operations run one after the other in the order of submission. Every rank must submit the same collectives
// in the same order. Groups do not wait for each other. A send holds its lane until the peer receives, so pipelines use
// one group per direction.
//
// Reductions add the ranks' values as one balanced binary tree over rank order (see tree_sum.h). Types are fp64, fp32,
// bf16 and, without avg, int64, int32, int16 and uint8. bf16 is accumulated in fp32 and rounded once, to nearest even, at the
// end. Moves take every type. Integer sums wrap.
//
// Wrong arguments throw Error{kInternal} from the call itself. Ranks that disagree about an
// operation get Error{kInternal} naming both sides, before data is applied. A peer that is gone, or
// silent for longer than the world's timeout, is Error{kPeerLost} on every rank. After any failure
// the world is unusable: all pending and later operations of all ranks fail with its cause.
// A group of size 1 does nothing (a copy where input and output differ), at once.
class Group {
 public:
  virtual ~Group() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }

  // inout = the reduction of all ranks' inout.
  Ticket all_reduce(Buffer inout, Reduce reduce = Reduce::kSum);

  // out = this rank's slice of the reduction of all ranks' `in`, which holds size() slices of out.count elements; `out`
  // may be that slice inside `in`.
  Ticket reduce_scatter(ConstBuffer in, Buffer out, Reduce reduce = Reduce::kSum);
  // As reduce_scatter with slices of counts[r] elements, one after the other; out.count is counts[rank()].
  Ticket reduce_scatter_v(ConstBuffer in, Buffer out, std::span<const std::int64_t> counts,
                          Reduce reduce = Reduce::kSum);

  // out = all ranks' `in` in rank order. `in` may be the own slice inside `out`.
  Ticket all_gather(ConstBuffer in, Buffer out);
  // As all_gather with slices of counts[r] elements; in.count is counts[rank()].
  Ticket all_gather_v(ConstBuffer in, Buffer out, std::span<const std::int64_t> counts);

  // inout = root's inout.
  Ticket broadcast(Buffer inout, int root);

  // Sends in_counts[r] elements of `in` to rank r and receives out_counts[r] from it. Slices are in rank order. `in`
  // and `out` do not overlap.
  Ticket all_to_all(ConstBuffer in, std::span<const std::int64_t> in_counts, Buffer out,
                    std::span<const std::int64_t> out_counts);

  // The peer must call the counterpart with the same count and type; peer != rank().
  Ticket send(ConstBuffer in, int peer);
  Ticket recv(Buffer out, int peer);

  // Ends when every rank of the group has called it.
  Ticket barrier();

  // Makes all pending and later operations of every rank of the world fail with Error{kPeerLost}
  // carrying `cause`. The first cause stays; any thread may call it.
  virtual void abort(const std::string& cause) = 0;

 protected:
  Group(std::string name, int rank, int size);
  // Runs a checked operation of a group of two or more ranks.
  virtual Ticket start(Operation operation) = 0;
  // The operation of a group of one, if its buffers differ.
  virtual void copy(const std::byte* in, std::byte* out, std::int64_t count, DType type);

 private:
  Ticket submit(Operation operation);
  void check(bool ok, Verb verb, const std::string& what) const;

  std::string name_;
  int rank_;
  int size_;
};

}  // namespace trireme::comm
