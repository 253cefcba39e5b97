// Models that look a word up in the vocabulary.
#pragma once

#include <string>

#include "trireme/data/text/tokenizer/models/model.h"
#include "trireme/formats/json_fields.h"

namespace trireme::text {

// The longest beginning of the rest of a word at each step (BERT). A word with an unknown rest, or of too many
// characters, is one unknown token.
class WordPiece : public Model {
 public:
  WordPiece(const formats::JsonFields& fields, TokenIds ids);

  void encode(std::string_view word, std::vector<WordToken>& out) const override;
  Rules rules() const override;

 private:
  TokenIds ids_;
  std::int32_t unknown_ = -1;
  std::int64_t most_characters_ = 100;
  std::string prefix_;  // of tokens that continue a word
  std::size_t longest_ = 0;
};

// Whole words.
class WordLevel : public Model {
 public:
  WordLevel(const formats::JsonFields& fields, TokenIds ids);

  void encode(std::string_view word, std::vector<WordToken>& out) const override;
  Rules rules() const override;

 private:
  TokenIds ids_;
  std::int32_t unknown_ = -1;
};

}  // namespace trireme::text
