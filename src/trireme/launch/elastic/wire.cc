#include "trireme/launch/elastic/wire.h"

#include "trireme/base/error.h"

namespace trireme::elastic {
namespace {

constexpr std::size_t kNumber = 8, kLength = 4;

void append(std::string& bytes, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

std::uint64_t value_of(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

Writer& Writer::number(std::uint64_t value) {
  append(bytes_, value, kNumber);
  return *this;
}

Writer& Writer::text(std::string_view value) {
  append(bytes_, value.size(), kLength);
  bytes_ += value;
  return *this;
}

std::string_view Reader::take(std::size_t count) {
  if (rest_.size() < count)
    fail(ErrorKind::kPeerLost, "a message ends {} bytes early", count - rest_.size());
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::uint64_t Reader::number() { return value_of(take(kNumber)); }

std::uint64_t Reader::number_below(std::uint64_t limit) {
  const std::uint64_t value = number();
  if (value >= limit)
    fail(ErrorKind::kPeerLost, "a message says {}, needs less than {}", value, limit);
  return value;
}

std::string Reader::text(std::size_t most) {
  const std::uint64_t length = value_of(take(kLength));
  if (length > most) fail(ErrorKind::kPeerLost, "a text of {} bytes; at most {}", length, most);
  return std::string(take(length));
}

void Reader::finish() const {
  if (!rest_.empty()) fail(ErrorKind::kPeerLost, "a message has {} bytes too many", rest_.size());
}

}  // namespace trireme::elastic
