// Byte-pair encoding (Sennrich et al. 2016) over bytes, as GPT-2 has it, or over characters.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "trireme/data/text/tokenizer/models/merges.h"
#include "trireme/data/text/tokenizer/models/model.h"
#include "trireme/formats/json_fields.h"

namespace trireme::text {

// Model "BPE" of a tokenizer.json. A character without a token becomes the tokens of its bytes (byte_fallback), else the
// unknown token, else an Error{kData}.
class Bpe : public Model {
 public:
  // `ids` by the bytes of a token. With `byte_level`, symbols are bytes and all 256 need a token. Throws Error{kData}
  // beginning with the fields' place.
  Bpe(const formats::JsonFields& fields, TokenIds ids, bool byte_level);

  void encode(std::string_view word, std::vector<WordToken>& out) const override;
  Rules rules() const override;

 private:
  void read_merges(const formats::JsonFields& fields);
  std::int32_t id_of(std::string_view text) const;
  std::vector<Symbol> symbols_of(std::string_view word) const;
  void add_unknown(std::string_view character, std::size_t begin, std::optional<Symbol>& unknown,
                   std::vector<Symbol>& out) const;

  const bool byte_level_;
  TokenIds ids_;
  bool ignore_merges_ = false;
  bool fuse_unknown_ = false;
  std::int32_t unknown_ = -1;
  std::string prefix_, suffix_;                      // of symbols inside a word and of its last one
  std::vector<std::int32_t> byte_ids_;               // tokens of bytes; empty without byte_fallback
  std::unordered_map<std::uint64_t, Merge> merges_;  // by left << 32 | right
};

}  // namespace trireme::text
