// Colours on terminals.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace trireme::app {

enum class Colour { kRed = 31, kYellow = 33 };

// Whether lines to this file may be coloured: it is a terminal, and nothing asks for plain text (no-color.org).
inline bool takes_colours(int fd) {
  const char* const none = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool plain = (none != nullptr && *none != '\0') ||
                     (terminal != nullptr && std::string_view(terminal) == "dumb");
  return !plain && ::isatty(fd) == 1;
}

// The text in that colour where the file takes it.
inline std::string coloured(int fd, Colour colour, std::string_view text) {
  if (!takes_colours(fd)) return std::string(text);
  return "\x1b[" + std::to_string(static_cast<int>(colour)) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace trireme::app
