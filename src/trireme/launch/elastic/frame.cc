#include "trireme/launch/elastic/frame.h"

#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic {
namespace {

constexpr std::string_view kMagic = "trireme elastic 4\n";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kLengthBytes = 4;
// Size of the messages that open a connection; a stranger cannot make us hold more.
constexpr std::size_t kGreeting = kMagic.size() + kNonceBytes;
constexpr std::size_t kAnswer = kNonceBytes + kMacBytes;

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i)
    text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

std::size_t length_of(std::string_view frame) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::size_t{static_cast<unsigned char>(frame[i])} << (8 * i);
  return length;
}

}  // namespace

Session::Session(Role role, std::string token, std::string nonce)
    : role_(role), token_(std::move(token)), mine_(std::move(nonce)) {
  TRIREME_CHECK(mine_.size() == kNonceBytes, "a nonce of {} bytes", mine_.size());
}

std::string Session::greeting() const {
  return role_ == Role::kServer ? std::string(kMagic) + mine_ : "";
}

std::string Session::proof(const char* who) const {
  const bool server = role_ == Role::kServer;
  return hmac(token_, who + (server ? mine_ + theirs_ : theirs_ + mine_));
}

void Session::make_keys() {
  const std::string up = proof("key of the client"), down = proof("key of the server");
  send_key_ = role_ == Role::kServer ? down : up;
  receive_key_ = role_ == Role::kServer ? up : down;
  open_ = true;
}

// The client's first and the server's only handshake message.
std::string Session::greeted(std::string_view message) {
  greeted_ = true;
  if (role_ == Role::kClient) {
    if (!message.starts_with(kMagic))
      fail(ErrorKind::kPeerLost, "the process that listens there is not an agent of this version");
    theirs_ = message.substr(kMagic.size());
    return mine_ + proof("client");
  }
  theirs_ = message.substr(0, kNonceBytes);
  if (!same_secret(message.substr(kNonceBytes), proof("client")))
    fail(ErrorKind::kPeerLost, "the other side does not have this run's token");
  make_keys();
  return proof("server");
}

// The client's last.
std::string Session::proven(std::string_view message) {
  if (!same_secret(message, proof("server")))
    fail(ErrorKind::kPeerLost, "the agent does not have this run's token");
  make_keys();
  return "";
}

std::string Session::receive(std::string_view bytes,
                             const std::function<void(std::string)>& on_frame) {
  buffer_ += bytes;
  std::string answer;
  std::size_t at = 0;
  const auto have = [&](std::size_t count) { return buffer_.size() - at >= count; };
  const auto next = [&](std::size_t count) {
    return std::string_view(buffer_).substr(std::exchange(at, at + count), count);
  };
  if (!greeted_) {
    const std::size_t size = role_ == Role::kClient ? kGreeting : kAnswer;
    if (have(size)) answer += greeted(next(size));
  }
  if (greeted_ && !open_ && have(kMacBytes)) answer += proven(next(kMacBytes));
  while (open_ && have(kLengthBytes)) {
    const std::size_t length = length_of(std::string_view(buffer_).substr(at));
    if (length > kLargestFrame)
      fail(ErrorKind::kPeerLost, "a frame of {} bytes; at most {}", length, kLargestFrame);
    if (!have(kLengthBytes + length + kMacBytes)) break;
    const std::string_view signed_part = next(kLengthBytes + length), mac = next(kMacBytes);
    if (!same_secret(mac,
                     hmac(receive_key_, little_endian(received_, 8) + std::string(signed_part))))
      fail(ErrorKind::kPeerLost, "frame {} is not what was sent", received_);
    ++received_;
    on_frame(std::string(signed_part.substr(kLengthBytes)));
  }
  buffer_.erase(0, at);
  return answer;
}

std::string Session::seal(std::string_view payload) {
  TRIREME_CHECK(open_ && payload.size() <= kLargestFrame, "a frame of {} bytes", payload.size());
  std::string frame = little_endian(payload.size(), kLengthBytes) + std::string(payload);
  return frame + hmac(send_key_, little_endian(sent_++, 8) + frame);
}

}  // namespace trireme::elastic
