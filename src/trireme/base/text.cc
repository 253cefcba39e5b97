#include "trireme/base/text.h"

#include <fmt/core.h>

namespace trireme {

std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string bytes_text(double count) {
  constexpr double kMib = 1 << 20;
  if (count < 1024) return fmt::format("{:.0f} B", count);
  if (count < kMib) return fmt::format("{:.1f} KiB", count / 1024);
  if (count < 1024 * kMib) return fmt::format("{:.1f} MiB", count / kMib);
  return fmt::format("{:.2f} GiB", count / (1024 * kMib));
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string result;
  std::size_t begin = 0;                  // of the line, in result
  std::size_t space = std::string::npos;  // the last at which the line may be broken
  bool word = false;                      // one has begun
  for (const char c : text) {
    result += c;
    if (c == '\n') {
      begin = result.size();
      space = std::string::npos;
      word = false;
      continue;
    }
    if (c == ' ' && word) space = result.size() - 1;
    word = word || c != ' ';
    if (result.size() - begin <= columns || space == std::string::npos) continue;
    result.replace(space, 1, "\n" + std::string(indent, ' '));
    begin = space + 1;
    space = std::string::npos;
  }
  return result;
}

}  // namespace trireme
