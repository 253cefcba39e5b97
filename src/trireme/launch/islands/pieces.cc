#include "trireme/launch/islands/pieces.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/hash.h"

namespace trireme::islands {
namespace {

struct PieceHead {
  char mark[8] = {kPieceMark};
  std::uint64_t key = 0;
  std::int64_t number = 0;
  std::uint64_t digest = 0;
};

}  // namespace

std::string frame_of(std::uint64_t key, std::int64_t number, std::span<const std::byte> chunk) {
  const PieceHead head{.key = key, .number = number, .digest = hash64(chunk)};
  std::string frame(sizeof head + chunk.size(), '\0');
  std::memcpy(frame.data(), &head, sizeof head);
  if (!chunk.empty()) std::memcpy(frame.data() + sizeof head, chunk.data(), chunk.size());
  return frame;
}

std::string piece_of(std::uint64_t key, std::int64_t number, std::span<const std::byte> bytes) {
  const auto begin = static_cast<std::size_t>(number * kPiece);
  return frame_of(key, number,
                  bytes.subspan(begin, std::min<std::size_t>(kPiece, bytes.size() - begin)));
}

std::optional<std::uint64_t> key_of(std::string_view frame) {
  PieceHead head;
  if (frame.size() < sizeof head || frame[0] != kPieceMark) return std::nullopt;
  std::memcpy(&head, frame.data(), sizeof head);
  return head.key;
}

std::optional<Piece> piece_from(std::string_view frame) {
  PieceHead head;
  if (!key_of(frame)) return std::nullopt;
  std::memcpy(&head, frame.data(), sizeof head);
  const std::string_view bytes = frame.substr(sizeof head);
  if (hash64(bytes) != head.digest) return std::nullopt;
  return Piece{.key = head.key, .number = head.number, .bytes = bytes};
}

bool Arriving::take(std::string_view frame) {
  if (complete()) return false;
  const std::optional<Piece> piece = piece_from(frame);
  const auto begin = static_cast<std::size_t>(pieces_ * kPiece);
  if (!piece || piece->number != pieces_ ||
      piece->bytes.size() != std::min<std::size_t>(kPiece, bytes_.size() - begin))
    return false;
  std::memcpy(bytes_.data() + begin, piece->bytes.data(), piece->bytes.size());
  ++pieces_;
  return true;
}

bool Arriving::check() {
  if (!complete()) return false;
  if (hash64(std::span<const std::byte>(bytes_)) == digest_) return true;
  pieces_ = 0;
  return false;
}

}  // namespace trireme::islands
