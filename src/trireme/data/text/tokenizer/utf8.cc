#include "trireme/data/text/tokenizer/utf8.h"

#include <utf8proc.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::text {

Character character_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {.code = first};
  std::int32_t code = 0;
  const auto rest = static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size() - at, 4));
  const utf8proc_ssize_t size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at, rest, &code);
  if (size <= 0) return {};
  return {.code = code, .size = static_cast<std::size_t>(size)};
}

bool may_become_character(std::string_view bytes) {
  if (bytes.empty() || character_at(bytes, 0).code >= 0) return false;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  return first < 0xF5 && bytes.size() < size && std::ranges::all_of(bytes.substr(1), [](char byte) {
           return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
         });
}

void append_utf8(std::string& out, std::int32_t code) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(code, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

void need_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.code < 0)
      fail(ErrorKind::kData,
           "the text is not valid UTF-8 at byte {}, which this tokenizer cannot normalise; the "
           "bytes tokenizer takes any text",
           at);
    at += character.size;
  }
}

bool is_white_space(std::int32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word(std::int32_t code) {
  if (code < 0) return false;
  const auto category = utf8proc_category(code);
  const bool letter_mark_or_digit =
      category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL;
  const bool circled = (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
                       (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  return letter_mark_or_digit || category == UTF8PROC_CATEGORY_PC || code == 0x200C ||
         code == 0x200D || circled;
}

}  // namespace trireme::text
