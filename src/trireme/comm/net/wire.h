// Messages on the streams of a pair of ranks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "trireme/comm/transport.h"

namespace trireme::comm::net {

// Streams of a pair, besides the one of control messages.
inline constexpr int kDataStreams = 2;
// Messages up to this size travel within their announcement.
inline constexpr std::size_t kInline = 992;
// Larger ones travel in chunks, each a header and its bytes on any data stream with free space. A chunk is added when it
// is complete, so there are several dozens: on a slow link the first and the last one take little of the time.
inline constexpr std::size_t kMostChunk = std::size_t{256} << 10;
constexpr std::size_t chunk_size(std::size_t bytes) {
  constexpr std::size_t kLeast = std::size_t{32} << 10, kChunks = 64;
  return std::clamp(std::bit_floor(bytes / kChunks), kLeast, kMostChunk);
}

constexpr std::size_t chunks_of(std::size_t bytes) {
  return bytes <= kInline ? 0 : (bytes + chunk_size(bytes) - 1) / chunk_size(bytes);
}

constexpr std::size_t bytes_of_chunk(const Stamp& stamp, std::size_t chunk) {
  const std::size_t size = chunk_size(stamp.bytes);
  return std::min<std::size_t>(size, stamp.bytes - chunk * size);
}

// One message of one direction of a pair.
struct MessageId {
  std::uint64_t channel = 0;  // the group's
  std::uint64_t number = 0;   // of those in this direction so far
  auto operator<=>(const MessageId&) const = default;
};

// On the control stream, where no data delays it; followed by `bytes` bytes.
struct Control {
  enum class Kind : std::uint32_t {
    kAnnounce,  // the stamp, and the whole payload where it is small
    kGrant,     // chunks before `upto` may be sent: they have a place
    kBack,      // a small payload, overwritten, back to its sender
  };
  MessageId id;
  Kind kind;
  std::uint32_t bytes = 0;
  std::uint64_t upto = 0;
  Stamp stamp{};
};
static_assert(sizeof(Control) == 72);

// On a data stream, followed by `bytes` bytes.
struct Piece {
  MessageId id;
  std::uint32_t chunk;
  std::uint32_t bytes;
  std::uint32_t back = 0;  // 1: to the message's sender
  std::uint32_t unused = 0;
};
static_assert(sizeof(Piece) == 32);

using Small = std::array<std::byte, kInline>;

}  // namespace trireme::comm::net
