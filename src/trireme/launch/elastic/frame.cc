#include "trireme/launch/elastic/frame.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::elastic {
namespace {

constexpr std::size_t kLengthBytes = 4;

std::string name_of(Caller caller) {
  return std::string(kControlVersion) +
         (caller == Caller::kAgent ? "|agent|leader" : "|rank|leader");
}

std::string with_length(std::string_view payload) {
  std::string frame;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    frame.push_back(static_cast<char>(payload.size() >> (8 * i) & 0xff));
  return frame += payload;
}

std::size_t length_of(std::string_view frame) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::size_t{static_cast<unsigned char>(frame[i])} << (8 * i);
  return length;
}

// A failure of the connection is no error of this program.
template <typename Body>
auto on_wire(const Body& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    fail(ErrorKind::kPeerLost, "{}", error.what());
  }
}

}  // namespace

std::string Session::greeting() {
  on_wire([&] { return end_->shake_hands(); });
  return end_->take();
}

std::string Session::receive(std::string_view bytes,
                             const std::function<void(std::string)>& on_frame) {
  constexpr std::size_t kRecord = std::size_t{16} << 10;
  std::array<std::byte, kRecord> text;
  if (!open()) unproven_ += bytes.size();
  end_->feed(bytes);
  while (const std::size_t n = on_wire([&] { return end_->read(text.data(), text.size()); })) {
    buffer_.append(reinterpret_cast<const char*>(text.data()), n);
    take_frames(on_frame);
  }
  if (!open() && unproven_ > kMostOfAHandshake)
    fail(ErrorKind::kPeerLost, "{} bytes without the token; at most {}", unproven_,
         kMostOfAHandshake);
  return end_->take();
}

void Session::take_frames(const std::function<void(std::string)>& on_frame) {
  std::size_t at = 0;
  const auto rest = [&] { return std::string_view(buffer_).substr(at); };
  while (rest().size() >= kLengthBytes) {
    const std::size_t length = length_of(rest());
    if (length > kLargestFrame)
      fail(ErrorKind::kPeerLost, "a frame of {} bytes; at most {}", length, kLargestFrame);
    if (rest().size() < kLengthBytes + length) break;
    std::string payload(rest().substr(kLengthBytes, length));
    at += kLengthBytes + length;
    on_frame(std::move(payload));
  }
  buffer_.erase(0, at);
}

std::string Session::seal(std::string_view payload) {
  TRIREME_CHECK(open() && payload.size() <= kLargestFrame, "a frame of {} bytes", payload.size());
  const std::string frame = with_length(payload);
  on_wire(
      [&] { return end_->write(reinterpret_cast<const std::byte*>(frame.data()), frame.size()); });
  return end_->take();
}

Sessions::Sessions(const std::string& token)
    : tls_(token), expected_(tls_.expect({name_of(Caller::kAgent), name_of(Caller::kRank)})) {}

Session Sessions::accept() const { return Session(tls_.server(expected_)); }

Session Sessions::connect(Caller caller) const { return Session(tls_.client(name_of(caller))); }

}  // namespace trireme::elastic
