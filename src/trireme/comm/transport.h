// Transport: stamped messages between two ranks of a group; the only thing a back end must bring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/comm/operation.h"
#include "trireme/launch/watch/recorder.h"

namespace trireme::comm {

// The way of a message within its operation: to its reader; passed on by such a reader; or to a rank that overwrites
// it, and back with the new bytes into the sender's memory.
enum class Way : std::uint8_t { kThere, kOn, kThereAndBack };

// The operation that a rank runs, sent ahead of the data: two ranks that disagree find out before any byte is applied.
struct Stamp {
  std::uint64_t sequence =
      0;                    // collectives so far; for send and recv, messages of this pair so far
  std::int64_t count = 0;   // elements of the whole operation; 0 where ranks may differ
  std::uint64_t bytes = 0;  // of this message
  std::int32_t root = 0;
  Verb verb = Verb::kBarrier;
  Reduce reduce = Reduce::kSum;
  DType type = DType::kU8;
  Way way = Way::kThere;
  std::int32_t line = -1;      // of the rank's plan; for people: ranks that agree may differ in it
  std::int32_t algorithm = 0;  // algorithm::Kind of the group
  bool operator==(const Stamp& other) const {
    return sequence == other.sequence && count == other.count && bytes == other.bytes &&
           root == other.root && verb == other.verb && reduce == other.reduce &&
           type == other.type && way == other.way && algorithm == other.algorithm;
  }
};
static_assert(sizeof(Stamp) == 40);

// Thrown by a transport when a rank did not answer; the group adds what it was doing.
struct Lost {
  int rank;          // awaited
  double seconds;    // waited
  std::string why;   // "no answer within the timeout of 2 s", "connection closed: ...", ...
  int culprit = -1;  // -1: the awaited one
};

// A message on its way out. Destroying it before finish() takes it back: afterwards no rank reads its memory any more.
class Outgoing {
 public:
  virtual ~Outgoing() = default;
  // Blocks until the memory may be written again, and holds what came back. Throws Lost.
  virtual void finish() = 0;
  // Whether it leaves while its sender waits for messages of another transport.
  virtual bool leaves_alone() const { return false; }
};

// A message to receive. First stamp(), then land() or else stream(), lend() and release() of every chunk; then
// finish(). Destroying it reports to the sender that its memory is free.
class Incoming {
 public:
  virtual ~Incoming() = default;
  // Blocks until the peer's message has been announced. Throws Lost.
  virtual const Stamp& stamp() = 0;
  // Starts moving the whole payload to `into`.
  virtual void land(std::byte* into) = 0;
  // Starts moving the payload in chunks that the transport keeps. lend() blocks for the next chunk, which the reader
  // owns until release(). Its size is chunk() bytes, a power of two; the last one has the rest. A chunk of a message
  // there and back is overwritten, and returns at release(). Throws Lost.
  virtual void stream() = 0;
  // Enough to hide the cost of a message, few enough that one chunk per rank stays in cache while it is
  // added.
  virtual std::size_t chunk() const = 0;
  virtual std::byte* lend() = 0;
  virtual void release() = 0;
  // Blocks until what landed is there and what returns has left. Throws Lost.
  virtual void finish() = 0;
};

// Messages of one pair and direction arrive in the order they were posted; posting never blocks. Ranks
// are the world's. Used by one thread; abort() and cause() by any.
class Transport {
 public:
  virtual ~Transport() = default;
  // Where it is recorded which chunk of an operation it is at; before the first message. `recorder` outlives it.
  virtual void record_in(watch::Recorder& recorder, int track) {
    recorder_ = &recorder;
    track_ = track;
  }
  // `data` is written to only where the stamp says there and back.
  virtual std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) = 0;
  virtual std::unique_ptr<Incoming> recv(int rank) = 0;
  // Publishes the cause to every rank of the world and wakes all that wait; the first cause stays.
  virtual void abort(const std::string& cause) = 0;
  // Why the world was aborted; empty while it is healthy.
  virtual std::optional<std::string> cause() = 0;
  // Called by messages: a chunk has been written, read or returned, and the peer does not know it yet.
  void moved() {
    if (recorder_ != nullptr) recorder_->chunk(track_);
  }
  // Called by messages: from here to the next chunk this thread waits for a rank, or for watch::kNoRank any more.
  void awaits(int rank) {
    if (recorder_ != nullptr) recorder_->await(track_, rank);
  }

 private:
  watch::Recorder* recorder_ = nullptr;
  int track_ = -1;
};

}  // namespace trireme::comm
