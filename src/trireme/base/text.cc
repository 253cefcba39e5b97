#include "trireme/base/text.h"

#include <fmt/core.h>

namespace trireme {

std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
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
