#include "trireme/formats/shown.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme::formats {

std::string shown(std::string_view text) {
  constexpr std::size_t kMaxShown = 120;
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + (text.size() > kMaxShown ? "...\"" : "\"");
}

bool is_plain_file_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F || c == '/';
  });
}

}  // namespace trireme::formats
