// Frames over a byte stream between two programs that share a secret. Pure: bytes in, frames and bytes out.
//
// The bytes are those of TLS 1.3 (tls.h): the client speaks first. Under it, a frame is its length (4 bytes, little end
// first) and its payload. A record that was altered, repeated, left out or brought from elsewhere ends the connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/launch/elastic/tls.h"

namespace trireme::elastic {

// Part of every connection's name: programs of different versions do not connect.
inline constexpr std::string_view kControlVersion = "trireme elastic 6";
inline constexpr std::size_t kLargestFrame =
    (8 << 20) + (16 << 10);  // a value, its key and what surrounds them
inline constexpr std::size_t kMostOfAHandshake =
    16 << 10;  // bytes; a stranger can make us hold no more

class Session {
 public:
  explicit Session(std::unique_ptr<TlsEnd> end) : end_(std::move(end)) {}

  // Bytes to send before anything was received; empty for a server.
  std::string greeting();
  // Takes received bytes: gives whole frames to `on_frame`, returns what the handshake answers. Throws Error{kPeerLost}
  // for bytes from a peer that does not know the token: the connection must be closed then.
  std::string receive(std::string_view bytes, const std::function<void(std::string)>& on_frame);
  // A payload as bytes to send. Only once open().
  std::string seal(std::string_view payload);

  // The other side has shown that it knows the token.
  bool open() const { return end_->ready(); }

 private:
  void take_frames(const std::function<void(std::string)>& on_frame);

  std::unique_ptr<TlsEnd> end_;
  std::size_t unproven_ = 0;  // bytes that came before it was open
  std::string buffer_;
};

// Which program connects to a leader.
enum class Caller { kAgent, kRank };

// The control connections of a run, whose programs share a token.
class Sessions {
 public:
  explicit Sessions(const std::string& token);
  // As the leader, which accepts agents and ranks, and no other connection under the token.
  Session accept() const;
  Session connect(Caller caller) const;

 private:
  Tls tls_;
  Expected expected_;
};

}  // namespace trireme::elastic
