// Text to ids and back, as a tokenizer.json or a SentencePiece model says.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/text/tokenizer/added_tokens.h"
#include "trireme/data/text/tokenizer/decoders.h"
#include "trireme/data/text/tokenizer/models/model.h"
#include "trireme/data/text/tokenizer/normalizers.h"
#include "trireme/data/text/tokenizer/post_processor.h"
#include "trireme/data/text/tokenizer/pre_tokenizers.h"

namespace trireme::text {

// A token of a text and its bytes there, [begin, end). A token of changed characters has the range of these.
struct TokenSpan {
  std::int32_t id = 0;
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const TokenSpan&) const = default;
};

// The texts of ids, which may have gaps.
class TokenTable {
 public:
  // Throws Error{kData} beginning with `what` if the id has a text already.
  void place(std::int32_t id, std::string text, const std::string& what);
  bool has(std::int32_t id) const;
  // Ids without a text are Error{kData}.
  const std::string& text(std::int32_t id) const;
  std::int32_t size() const { return static_cast<std::int32_t>(texts_.size()); }

 private:
  std::vector<std::string> texts_;
  std::vector<bool> present_;
};

// A read-only chain of steps; safe to share between threads. The order of the reference: added tokens that are not
// normalized, each remaining part by itself through the normalizers, normalized added tokens, pre-tokenizers, model.
class Codec {
 public:
  struct Parts {
    const char* kind = "";
    std::string rules{};  // for the digest: what decides the words of a text
    AroundText around{};
    std::vector<AddedToken> added{};
    std::vector<AddedToken> findable{};  // not looked for in a text, but by added_token()
    std::vector<Normalizer> normalizers{};
    PreTokenizers pre_tokenizers{};
    std::unique_ptr<Model> model{};
    std::vector<Decoder> decoders{};
    TokenTable tokens{};
    bool needs_utf8 = false;  // invalid bytes are Error{kData}
  };
  explicit Codec(Parts parts);

  const char* kind() const { return parts_.kind; }
  std::int32_t vocab_size() const { return parts_.tokens.size(); }
  const AroundText& around() const { return parts_.around; }
  // The id of an added token such as "<|endoftext|>", or -1.
  std::int32_t added_token(std::string_view content) const;

  void encode(std::string_view text, Specials specials, std::vector<std::int32_t>& out) const;
  void encode_spans(std::string_view text, Specials specials, std::vector<TokenSpan>& out) const;
  // Ids outside [0, vocab_size) or without a token: Error{kData}.
  std::string decode(std::span<const std::int32_t> ids) const;
  // Whether the text of an id depends on its neighbours.
  bool decodes_in_context() const { return !parts_.decoders.empty(); }
  // The text of `ids` after a token, which is -1 for any.
  std::string decode_after(std::int32_t before, std::span<const std::int32_t> ids) const;
  // The byte that an id means by itself, of a vocabulary with byte fallback.
  std::optional<char> byte_of(std::int32_t id) const;
  // Digest of everything that decides the ids of a text, independent of the file's formatting.
  std::uint64_t digest() const;

 private:
  template <typename Add>
  void encode_parts(std::string_view text, Specials specials, bool tracked, Add&& add) const;

  Parts parts_;
  AddedTokens raw_, normalized_;  // added tokens before and after normalization
  std::int32_t neutral_ = -1;     // a token with a text of its own
};

// Reads a tokenizer.json from untrusted text; docs/data.md lists the supported parts. Others, and truncation and
// padding, are Error{kData} naming the part and beginning with `what`.
Codec read_tokenizer_json(std::string_view text, const std::string& what);

}  // namespace trireme::text
