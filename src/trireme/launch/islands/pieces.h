// Chunks: large bytes between islands travel in numbered ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::islands {

// Large bytes travel in numbered chunks with a digest each. A receiver asks from the first chunk that it lacks.
inline constexpr std::int64_t kPiece = std::int64_t{256} << 10;

// A chunk as a frame, which begins with kPieceMark, a message with '{'. Frame of chunk `number` of all `bytes`.
inline constexpr char kPieceMark = 'P';
struct Piece {
  std::uint64_t key = 0;
  std::int64_t number = 0;
  std::string_view bytes{};
};
std::string frame_of(std::uint64_t key, std::int64_t number, std::span<const std::byte> chunk);
// Nothing for a frame that is damaged.
std::optional<Piece> piece_from(std::string_view frame);
std::string piece_of(std::uint64_t key, std::int64_t number, std::span<const std::byte> bytes);
constexpr std::int64_t pieces_of(std::int64_t bytes) { return (bytes + kPiece - 1) / kPiece; }

// Bytes that arrive in chunks.
class Arriving {
 public:
  Arriving(std::int64_t bytes, std::uint64_t digest)
      : digest_(digest), bytes_(static_cast<std::size_t>(bytes)) {}
  // Chunks that have arrived, in order.
  std::int64_t pieces() const { return pieces_; }
  bool complete() const { return pieces_ == pieces_of(std::ssize(bytes_)); }
  // Takes the next chunk's frame. Another chunk, or one that is damaged, changes nothing: false.
  bool take(std::string_view frame);
  // Whether complete bytes have the digest; others begin again.
  bool check();
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::uint64_t digest() const { return digest_; }

 private:
  std::uint64_t digest_;
  std::vector<std::byte> bytes_;
  std::int64_t pieces_ = 0;
};
// The key in a chunk's frame; nothing if it is too short to be one.
std::optional<std::uint64_t> key_of(std::string_view frame);

}  // namespace trireme::islands
