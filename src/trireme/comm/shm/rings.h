// Rings of a group of processes. Each pair and direction has a few places in shared memory, each for a chunk of a
// message; a sender fills and a receiver empties them in turn.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "trireme/comm/bell.h"
#include "trireme/comm/shm/segment.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

// Enough places that both ends find work while the other is away for a moment.
constexpr std::size_t kPlaces = 4;

// Chunks are counted from 0; chunk i is in place i % kPlaces. Zero bytes are an empty ring. A place is
//   free       until the sender fills it and raises `written`,
//   written    until the receiver has copied or changed its bytes and raises `read`,
//   read       until the sender collects: it copies bytes of a message there and back to where they belong,
//   collected  from then on, which is free for chunk i + kPlaces; only the sender counts these.
// So collected <= read <= written <= collected + kPlaces.
struct alignas(64) Ring {
  std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  std::array<Stamp, kPlaces> stamps;  // of the message the chunk belongs to
};

class Rings {
 public:
  // Makes them for a group of `size` ranks.
  explicit Rings(int size) : size_(size), segment_(bytes(size)) {}
  // Opens those that another rank has made, by the path of their file().
  Rings(int size, const std::string& path) : size_(size), segment_(path) {}
  int file() const { return segment_.file(); }

  // All places of a group together stay small enough for a shared cache.
  static std::size_t chunk(int size);

  Bell& bell(int rank) const { return reinterpret_cast<Bell*>(segment_.data())[rank]; }
  Ring& ring(int from, int to) const {
    return reinterpret_cast<Ring*>(segment_.data() + bells(size_))[pair(from, to)];
  }
  std::byte* place(int from, int to, std::uint64_t number) const {
    return segment_.data() + head(size_) +
           (pair(from, to) * kPlaces + number % kPlaces) * chunk(size_);
  }

 private:
  static std::size_t bells(int size) { return static_cast<std::size_t>(size) * sizeof(Bell); }
  static std::size_t pairs(int size) { return static_cast<std::size_t>(size * size); }
  // On a page of its own begins what is moved.
  static std::size_t head(int size) {
    constexpr std::size_t kPage = 4096;
    return (bells(size) + pairs(size) * sizeof(Ring) + kPage - 1) / kPage * kPage;
  }
  // Memory of unused pairs is never touched.
  static std::size_t bytes(int size) { return head(size) + pairs(size) * kPlaces * chunk(size); }
  std::size_t pair(int from, int to) const { return static_cast<std::size_t>(from * size_ + to); }

  int size_;
  Segment segment_;
};

}  // namespace trireme::comm
