// Text to token ids and back: bytes, characters, or byte-level BPE from a Hugging Face tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::formats {

class Bpe;

// An immutable tokenizer; copies are cheap and share the vocabulary; safe to share between threads.
class Tokenizer {
 public:
  // 256 ids, one per byte.
  static Tokenizer bytes();
  // One id per character, in code-point order, of the characters that occur in `text` (UTF-8, else
  // Error{kData}; no text, no tokenizer: Error{kData} too).
  static Tokenizer chars(std::string_view text);
  // The content of a tokenizer.json (see Bpe for what is supported); errors begin with `what`.
  static Tokenizer hugging_face(std::string_view json, const std::string& what);
  // Inverse of description(), from untrusted text.
  static Tokenizer from_description(std::string_view json, const std::string& what);

  // JSON that rebuilds this tokenizer; stored beside a dataset and with a model.
  std::string description() const;
  // "bytes", "characters" or "bpe".
  const char* kind() const;
  std::int32_t vocab_size() const;

  // Appends the ids of `text`. A character that is not in the vocabulary of a characters tokenizer, or text that
  // is not UTF-8 where that matters, is Error{kData}.
  void encode(std::string_view text, std::vector<std::int32_t>& out) const;
  std::vector<std::int32_t> encode(std::string_view text) const;
  // Ids outside the vocabulary are Error{kData}. BPE and bytes may yield a cut UTF-8 sequence at the ends.
  std::string decode(std::span<const std::int32_t> ids) const;
  // The vocabulary of a characters tokenizer, in order; asking another kind is our bug.
  std::string characters() const;
  // The id of an added token such as "<|endoftext|>"; Error{kUsage} when there is none.
  std::int32_t added_token(std::string_view content) const;

 private:
  struct Chars;
  struct HuggingFace;

  Tokenizer() = default;

  std::shared_ptr<const Chars> chars_;  // at most one of the two; neither: bytes
  std::shared_ptr<const HuggingFace> file_;
};

}  // namespace trireme::formats
