// Frames: messages and chunks of islands over one stream.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "trireme/comm/net/stream.h"

namespace trireme::comm {

// Of the connections to the leader of islands, under TLS.
inline constexpr const char* kIslandsName = "island|leader of islands";

// A frame is its length in 4 bytes and its bytes. Used by one thread at a time; nothing blocks.
class Frames {
 public:
  static constexpr std::size_t kMost = std::size_t{64} << 20;  // bytes of a frame

  explicit Frames(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void send(std::string_view frame);
  std::size_t unsent() const { return out_.size() - gone_; }
  int descriptor() const { return stream_->descriptor(); }
  // Events of poll(2) to wait for.
  short events() const;
  // Sends and receives as much as the stream takes. Returns whether bytes came. Throws std::runtime_error once the
  // connection is over, or for a frame that is too long. `on_frame` does not call it again.
  bool move(const std::function<void(std::string_view frame)>& on_frame);

 private:
  void write();

  std::unique_ptr<Stream> stream_;
  std::string out_, in_;
  std::size_t gone_ = 0;  // of `out_`
  bool starting_ = true;  // nothing was received: a handshake may want to write
};

}  // namespace trireme::comm
