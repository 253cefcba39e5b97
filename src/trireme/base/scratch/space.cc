#include "trireme/base/scratch/space.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::scratch {

Extent Space::reserve(std::int64_t bytes) {
  TRIREME_CHECK(bytes >= 0 && !committed_, "{} bytes of scratch space are reserved late", bytes);
  const Extent extent{.offset = reserved_, .bytes = bytes};
  reserved_ += whole_pages(bytes);
  return extent;
}

void Space::commit() {
  TRIREME_CHECK(!std::exchange(committed_, true), "scratch space is committed twice");
  if (reserved_ > 0) make_real(reserved_);
}

Ticket Space::write(const Extent& extent, const void* data, std::int64_t bytes) {
  // A write only reads from it.
  auto* const from = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  return start(Direction::kWrite, extent, from, bytes);
}

Ticket Space::read(const Extent& extent, void* data, std::int64_t bytes) {
  return start(Direction::kRead, extent, static_cast<std::byte*>(data), bytes);
}

// Cuts a transfer into segments and hands them over.
Ticket Space::start(Direction direction, const Extent& extent, std::byte* data,
                    std::int64_t bytes) {
  TRIREME_CHECK(committed_ && bytes <= extent.bytes && extent.offset + bytes <= reserved_,
                "{} bytes at {} of {} bytes of scratch space", bytes, extent.offset, reserved_);
  if (bytes == 0) return {};
  const std::int64_t count = (bytes + kPiece - 1) / kPiece;
  const auto state =
      std::make_shared<Ticket::State>(meter_, direction, bytes, static_cast<int>(count));
  std::deque<Piece> pieces;
  for (std::int64_t at = 0; at < bytes; at += kPiece)
    pieces.push_back({.transfer = state,
                      .rest = {.direction = direction,
                               .data = data + at,
                               .bytes = std::min(kPiece, bytes - at),
                               .offset = extent.offset + at}});
  mover_->submit(std::move(pieces));
  return Ticket(state);
}

}  // namespace trireme::scratch
