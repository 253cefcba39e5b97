// Text to token ids and back: bytes, characters, a Hugging Face tokenizer.json or a SentencePiece model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/data/text/tokenizer/codec.h"

namespace trireme::formats {
class JsonFields;
}

namespace trireme::text {

// An immutable tokenizer; copies are cheap and share the vocabulary; safe to share between threads.
class Tokenizer {
 public:
  // 256 ids, one per byte.
  static Tokenizer bytes();
  // One id per character, in code-point order, of the characters that occur in `text` (UTF-8, else
  // Error{kData}; no text, no tokenizer: Error{kData} too).
  static Tokenizer chars(std::string_view text);
  // The content of a tokenizer.json (docs/data.md lists what is supported); errors begin with `what`.
  static Tokenizer hugging_face(std::string_view json, const std::string& what);
  // The content of a SentencePiece model, of type unigram or BPE; begin and end are its own. Errors begin with `what`.
  static Tokenizer sentencepiece(std::string_view model, const std::string& what);
  // Inverse of description(), from untrusted text.
  static Tokenizer from_description(std::string_view json, const std::string& what);

  // JSON that rebuilds this tokenizer; stored with a dataset and with a model.
  std::string description() const;
  // The vocabulary as a file for other programs: tokenizer.json or tokenizer.model. Error{kUsage} for characters, which
  // have none.
  struct File {
    const char* name;
    std::string content;
  };
  File file() const;
  // The content of file() if it is a tokenizer.json, else Error{kUsage}.
  std::string tokenizer_json() const;
  // 16 hex digits of all that decides which ids a text becomes, whatever file it came from.
  std::string digest() const;
  // "bytes", "characters", "bpe", "unigram", "wordpiece" or "wordlevel".
  const char* kind() const;
  // Whether the vocabulary is that of a file, not of the text itself or of bytes.
  bool from_file() const { return file_ != nullptr; }
  std::int32_t vocab_size() const;

  // Appends the ids of `text`. A character that is not in the vocabulary of a characters tokenizer, or text that
  // is not UTF-8 where that matters, is Error{kData}.
  void encode(std::string_view text, std::vector<std::int32_t>& out) const;
  std::vector<std::int32_t> encode(std::string_view text) const;
  // The tokens of `text` with their bytes there. Special tokens spelled in the text can be taken as plain text.
  std::vector<TokenSpan> encode_spans(std::string_view text,
                                      Specials specials = Specials::kRecognized) const;
  // The ids of a whole document: its text between the special tokens that a tokenizer.json puts around one.
  void encode_document(std::string_view text, std::vector<std::int32_t>& out) const;
  // The ids of a text to continue: those special tokens before it, or the begin token, but none after.
  std::vector<std::int32_t> encode_prompt(std::string_view text) const;
  // Ids outside the vocabulary are Error{kData}. Byte-level BPE and bytes may yield a cut UTF-8 sequence at the ends;
  // DecodeStream decodes ids that come one by one.
  std::string decode(std::span<const std::int32_t> ids) const;
  // The vocabulary of a characters tokenizer, in order; asking another kind is our bug.
  std::string characters() const;
  // The id of an added token such as "<|endoftext|>"; Error{kUsage} if it does not exist.
  std::int32_t added_token(std::string_view content) const;
  // The same, or nothing if it does not exist.
  std::optional<std::int32_t> find_added_token(std::string_view content) const;

  // Ids after which a text has ended, such as that of "<|endoftext|>"; part of description() and of no digest.
  const std::vector<std::int32_t>& ends() const { return ends_; }
  // Ids outside the vocabulary are Error{kData}.
  Tokenizer with_ends(std::vector<std::int32_t> ends) const;
  // The id that begins every prompt, of a vocabulary whose file says nothing of it; part of description() and of no digest.
  std::optional<std::int32_t> begin() const { return begin_; }
  // An id outside the vocabulary is Error{kData}.
  Tokenizer with_begin(std::int32_t begin) const;

 private:
  friend class DecodeStream;
  struct Chars;
  struct FromFile;

  Tokenizer() = default;
  static Tokenizer described(const formats::JsonFields& fields, const std::string& what);

  std::shared_ptr<const Chars> chars_;  // at most one of the two; neither: bytes
  std::shared_ptr<const FromFile> file_;
  std::vector<std::int32_t> ends_;
  std::optional<std::int32_t> begin_;
};

// Text of ids that come one by one and continue a text. The bytes of a character that has several tokens are held until
// it is complete, or until it cannot be one.
class DecodeStream {
 public:
  // `before`: the ids of the text so far.
  DecodeStream(Tokenizer tokenizer, std::span<const std::int32_t> before);

  // The text that is certain with this id. Ids outside the vocabulary are Error{kData}.
  std::string add(std::int32_t id);
  // The rest.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  std::int32_t before_ = -1;        // the last id whose text is out
  std::vector<std::int32_t> held_;  // tokens of bytes
};

}  // namespace trireme::text
