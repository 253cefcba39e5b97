// Numbers and texts as bytes: 8 bytes a number, 4 for a text's length before it, little end first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::elastic {

class Writer {
 public:
  Writer& number(std::uint64_t value);
  Writer& text(std::string_view value);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws Error{kPeerLost} if bytes are missing or left over: the sender has another version.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number();
  std::uint64_t number_below(std::uint64_t limit);
  std::string text(std::size_t most);
  void finish() const;

 private:
  std::string_view take(std::size_t count);
  std::string_view rest_;
};

}  // namespace trireme::elastic
