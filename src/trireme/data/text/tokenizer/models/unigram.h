// The unigram language model (Kudo 2018): the tokens of a text with the highest sum of scores.
#pragma once

#include <string>
#include <vector>

#include "trireme/data/text/tokenizer/models/model.h"
#include "trireme/data/text/tokenizer/trie.h"

namespace trireme::text {

struct UnigramPiece {
  std::string text;
  double score = 0;
  bool matched = true;        // text may become it
  bool user_defined = false;  // always chosen where it occurs
  bool scores = true;  // counts for the lowest score, which decides that of unknown characters
};

struct UnigramRules {
  std::vector<UnigramPiece> pieces;      // by id
  std::int32_t unknown = -1;             // -1: a character without a token is Error{kData}
  std::vector<std::int32_t> byte_ids{};  // tokens of bytes; empty: without byte_fallback
  bool single_precision = false;         // sums are rounded to 32 bits, as SentencePiece does
};

// Unknown characters score 10 less than the worst piece. Neighbouring ones are one token.
class Unigram : public Model {
 public:
  explicit Unigram(UnigramRules rules);

  void encode(std::string_view word, std::vector<WordToken>& out) const override;
  Rules rules() const override;

 private:
  struct Node;
  std::vector<Node> best_path(std::string_view word) const;
  void add_unknown(std::string_view word, const WordToken& token,
                   std::vector<WordToken>& out) const;

  UnigramRules rules_;
  double unknown_score_ = 0;
  float user_score_ = 0;  // of a user-defined piece, for each byte
  Trie trie_;
};

}  // namespace trireme::text
