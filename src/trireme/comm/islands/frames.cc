#include "trireme/comm/islands/frames.h"

#include <poll.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace trireme::comm {

void Frames::send(std::string_view frame) {
  if (frame.size() > kMost) throw std::runtime_error("a frame is too long");
  const auto size = static_cast<std::uint32_t>(frame.size());
  out_.append(reinterpret_cast<const char*>(&size), sizeof size);
  out_.append(frame);
}

short Frames::events() const {
  const bool writes = unsent() > 0 || (starting_ && stream_->waits_for_space(false));
  return static_cast<short>(POLLIN | (writes ? POLLOUT : 0));
}

void Frames::write() {
  while (unsent() > 0) {
    const std::size_t taken =
        stream_->write(reinterpret_cast<const std::byte*>(out_.data()) + gone_, unsent());
    if (taken == 0) break;
    gone_ += taken;
  }
  if (gone_ == out_.size() || gone_ > kMost) {
    out_.erase(0, gone_);
    gone_ = 0;
  }
}

bool Frames::move(const std::function<void(std::string_view)>& on_frame) {
  write();
  char buffer[std::size_t{64} << 10];
  std::size_t at = 0;
  bool heard = false;
  while (true) {
    const std::size_t got = stream_->read(reinterpret_cast<std::byte*>(buffer), sizeof buffer);
    if (got == 0) break;
    starting_ = false;
    heard = true;
    in_.append(buffer, got);
    std::uint32_t size = 0;
    while (in_.size() - at >= sizeof size) {
      std::memcpy(&size, in_.data() + at, sizeof size);
      if (size > kMost) throw std::runtime_error("a frame is too long");
      if (in_.size() - at - sizeof size < size) break;
      on_frame(std::string_view(in_).substr(at + sizeof size, size));
      at += sizeof size + size;
    }
    in_.erase(0, at);
    at = 0;
  }
  write();
  return heard;
}

}  // namespace trireme::comm
