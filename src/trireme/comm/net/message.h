// Messages as the link and the threads that send and receive share them.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "trireme/comm/net/wire.h"

namespace trireme::comm {

// How far the chunks of a message have come. Streams may overtake each other.
class Progress {
 public:
  void start(std::size_t chunks) { done_.resize(chunks); }
  bool has(std::size_t chunk) const { return done_[chunk]; }
  // By the link, one thread at a time.
  void mark(std::size_t chunk) {
    done_[chunk] = true;
    std::size_t count = count_.load(std::memory_order_relaxed);
    while (count < done_.size() && done_[count]) ++count;
    count_.store(count);
  }
  // Chunks without a gap; by any thread.
  std::size_t count() const { return count_.load(); }

 private:
  std::vector<bool> done_;
  std::atomic<std::size_t> count_{0};
};

// A message on its way out. The link reads `data` and, where it comes back, writes to it until withdraw().
struct Departure {
  int rank = 0;
  net::MessageId id{};
  Stamp stamp{};
  std::byte* data = nullptr;
  std::uint64_t posted =
      0;  // what the peer's control stream must have taken when a small message has left
  std::size_t queued = 0;  // chunks that the peer has granted
  Progress left,
      returned;  // chunks that the kernel has taken, and that are back; a small message returns as one
};

// A message to come. The link writes to its memory until forget().
struct Arrival {
  int rank = 0;
  net::MessageId id{};
  Stamp stamp{};                // readable once announced
  net::Small small{};           // the payload where it is small
  std::byte* memory = nullptr;  // of chunks
  std::size_t places = 0;       // chunk c is at place c modulo this; 0: each has its own
  std::size_t granted = 0;      // chunks
  std::atomic<bool> announced{false};
  Progress arrived, returned;  // chunks that have come, and that have left for their sender

  std::byte* place(std::size_t chunk) {
    return memory + (places == 0 ? chunk : chunk % places) * net::chunk_size(stamp.bytes);
  }
};

}  // namespace trireme::comm
