// Text to token ids and back: bytes, characters, or byte-level BPE from a Hugging Face tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::formats {
class JsonFields;
}

namespace trireme::text {

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

  // JSON that rebuilds this tokenizer; stored with a dataset and with a model.
  std::string description() const;
  // The same vocabulary as a Hugging Face tokenizer.json; Error{kUsage} for characters, which have none.
  std::string tokenizer_json() const;
  // 16 hex digits of all that decides which ids a text becomes, whatever file it came from.
  std::string digest() const;
  // "bytes", "characters" or "bpe".
  const char* kind() const;
  std::int32_t vocab_size() const;

  // Appends the ids of `text`. A character that is not in the vocabulary of a characters tokenizer, or text that
  // is not UTF-8 where that matters, is Error{kData}.
  void encode(std::string_view text, std::vector<std::int32_t>& out) const;
  std::vector<std::int32_t> encode(std::string_view text) const;
  // The ids of a whole document: its text between the special tokens that a tokenizer.json puts around one.
  void encode_document(std::string_view text, std::vector<std::int32_t>& out) const;
  // The ids of a text to continue: those special tokens before it, or the begin token, but none after.
  std::vector<std::int32_t> encode_prompt(std::string_view text) const;
  // Ids outside the vocabulary are Error{kData}. BPE and bytes may yield a cut UTF-8 sequence at the ends.
  std::string decode(std::span<const std::int32_t> ids) const;
  // The vocabulary of a characters tokenizer, in order; asking another kind is our bug.
  std::string characters() const;
  // The id of an added token such as "<|endoftext|>"; Error{kUsage} if it does not exist.
  std::int32_t added_token(std::string_view content) const;

  // Ids after which a text has ended, such as that of "<|endoftext|>"; part of description() and of no digest.
  const std::vector<std::int32_t>& ends() const { return ends_; }
  // Ids outside the vocabulary are Error{kData}.
  Tokenizer with_ends(std::vector<std::int32_t> ends) const;
  // The id that begins every prompt, of a vocabulary whose file says nothing of it; part of description() and of no digest.
  std::optional<std::int32_t> begin() const { return begin_; }
  // An id outside the vocabulary is Error{kData}.
  Tokenizer with_begin(std::int32_t begin) const;

 private:
  struct Chars;
  struct HuggingFace;

  Tokenizer() = default;
  static Tokenizer described(const formats::JsonFields& fields, const std::string& what);

  std::shared_ptr<const Chars> chars_;  // at most one of the two; neither: bytes
  std::shared_ptr<const HuggingFace> file_;
  std::vector<std::int32_t> ends_;
  std::optional<std::int32_t> begin_;
};

}  // namespace trireme::text
