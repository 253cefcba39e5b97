// Frames over a byte stream between two programs that share a secret. Pure: bytes in, frames and bytes out.
//
// The server greets with a nonce. The client answers with its own and an HMAC of both, the server with another HMAC.
// Each has then shown that it knows the token, which is never sent. Then frames: u32 length, payload, HMAC-SHA256 under
// a key of this connection and direction over sequence number, length and payload. A frame that was altered, repeated,
// left out or brought from elsewhere does not fit its number.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trireme::elastic {

inline constexpr std::size_t kLargestFrame =
    (8 << 20) + (16 << 10);  // a value, its key and what surrounds them

class Session {
 public:
  enum class Role { kServer, kClient };
  // `nonce`: 32 fresh random bytes.
  Session(Role role, std::string token, std::string nonce);

  // Bytes to send before anything was received; empty for a client.
  std::string greeting() const;
  // Takes received bytes: gives whole frames to `on_frame`, returns what the handshake answers. Throws Error{kPeerLost}
  // for bytes from a peer that does not know the token: the connection must be closed then.
  std::string receive(std::string_view bytes, const std::function<void(std::string)>& on_frame);
  // A payload as bytes to send. Only once open().
  std::string seal(std::string_view payload);

  // The other side has shown that it knows the token.
  bool open() const { return open_; }

 private:
  std::string greeted(std::string_view message);
  std::string proven(std::string_view message);
  void make_keys();
  std::string proof(const char* who) const;

  Role role_;
  bool open_ = false;
  bool greeted_ = false;
  std::string token_, mine_, theirs_;  // nonces
  std::string send_key_, receive_key_;
  std::uint64_t sent_ = 0, received_ = 0;
  std::string buffer_;
};

}  // namespace trireme::elastic
