// Tokens that are cut out of a text before anything else: a tokenizer.json's "added_tokens".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/data/text/tokenizer/aligned.h"
#include "trireme/data/text/tokenizer/normalizers.h"
#include "trireme/data/text/tokenizer/trie.h"

namespace trireme::text {

// Whether special tokens that are spelled in a text become their ids.
enum class Specials { kRecognized, kPlainText };

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;  // and after it
  bool normalized = false;   // is looked for after normalization
  bool single_word = false;  // not next to a letter or digit
  bool special = false;
};

// Reads "added_tokens"; ids are below `limit`.
std::vector<AddedToken> read_added_tokens(const Json& list, std::int64_t limit,
                                          const std::string& what);

// A part of a text: an added token, or text (id -1).
struct AddedPart {
  Range range;
  std::int32_t id = -1;
};

// Finds added tokens of one kind, normalized or not: leftmost, then longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  // Contents go through the normalizers; special tokens come before others with the same content.
  AddedTokens(const std::vector<AddedToken>& tokens, bool normalized,
              const std::vector<Normalizer>& normalizers);

  std::vector<AddedPart> split(std::string_view text, Specials specials) const;

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;
};

}  // namespace trireme::text
