// Byte-pair encoding of SentencePiece: tokens with scores instead of a list of merges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/text/tokenizer/models/merges.h"
#include "trireme/data/text/tokenizer/trie.h"

namespace trireme::text {

struct MergedPiece {
  std::string text;
  float score = 0;
  bool matched = true;        // text may become it
  bool user_defined = false;  // never merged with others
  bool unused = false;        // divided again into what it was merged from
};

// Joins neighbours whose joined text is a token, the highest score first.
class PieceMerges : public Model {
 public:
  // `byte_ids`: tokens of bytes for unknown characters; empty: without byte fallback, `unknown` is used.
  PieceMerges(std::vector<MergedPiece> pieces, std::int32_t unknown,
              std::vector<std::int32_t> byte_ids);

  void encode(std::string_view word, std::vector<WordToken>& out) const override;
  Rules rules() const override;

 private:
  struct Split;
  void emit(std::string_view word, const WordToken& symbol, const std::vector<Split>& splits,
            std::vector<WordToken>& out) const;
  std::int32_t piece_of(std::string_view text) const;

  std::vector<MergedPiece> pieces_;
  std::vector<std::int32_t> ranks_;  // of scores, the highest first; equal scores share one
  std::int32_t unknown_;
  std::vector<std::int32_t> byte_ids_;
  TokenIds ids_;
  Trie user_defined_;
  std::size_t longest_ = 0;
};

}  // namespace trireme::text
