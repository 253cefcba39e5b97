// Characters of UTF-8 text and the Unicode classes that tokenizers ask for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::text {

// A character and its bytes. Code -1: the byte is not valid UTF-8.
struct Character {
  std::int32_t code = -1;
  std::size_t size = 1;
};

Character character_at(std::string_view text, std::size_t at);
// Whether the bytes are the beginning of a character that more bytes may complete.
bool may_become_character(std::string_view bytes);
void append_utf8(std::string& out, std::int32_t code);

// Throws Error{kData} naming the first byte that is not valid UTF-8.
void need_utf8(std::string_view text);

// The 25 code points with Unicode's property White_Space.
bool is_white_space(std::int32_t code);
// Letters, marks, decimal digits, connecting punctuation and joiners: \w of Unicode Technical Standard 18.
bool is_word(std::int32_t code);

// U+2581, which SentencePiece writes for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
// U+FFFD, written for bytes that are no UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace trireme::text
