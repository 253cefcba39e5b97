#include "trireme/data/text/tokenizer/byte_level.h"

#include <array>

#include "trireme/base/error.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

// Index: code point of a spelling; value: byte, or -1.
std::array<int, 324> byte_of_character() {
  std::array<int, 324> table;
  table.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    table[printable ? byte : next++] = byte;
  }
  return table;
}

}  // namespace

std::string bytes_of_entry(std::string_view entry, const std::string& what) {
  const auto refuse = [&] {
    fail(ErrorKind::kData, "{}: entry {} is not spelled in byte-level characters", what,
         formats::shown(entry));
  };
  static const std::array<int, 324> table = byte_of_character();
  std::string out;
  for (std::size_t i = 0; i < entry.size(); ++i) {
    auto code = static_cast<unsigned>(static_cast<unsigned char>(entry[i]));
    if (code >= 0x80) {
      if ((code & 0xE0) != 0xC0 || i + 1 == entry.size()) refuse();
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(entry[++i]) & 0x3F);
    }
    if (code >= table.size() || table[code] < 0) refuse();
    out += static_cast<char>(table[code]);
  }
  return out;
}

std::string byte_level_spelling(std::string_view bytes) {
  static const std::array<std::string, 256> spellings = [] {
    std::array<std::string, 256> made;
    const std::array<int, 324> table = byte_of_character();
    for (std::size_t code = 0; code < table.size(); ++code) {
      if (table[code] < 0) continue;
      std::string& spelling = made[table[code]];
      if (code >= 0x80) spelling += static_cast<char>(0xC0 | code >> 6);
      spelling += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
    }
    return made;
  }();
  std::string out;
  for (const char byte : bytes) out += spellings[static_cast<unsigned char>(byte)];
  return out;
}

}  // namespace trireme::text
