// Byte-level byte-pair encoding as Hugging Face's tokenizer.json describes it (Sennrich et al. 2016; GPT-2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/data/text/post_processor.h"
#include "trireme/data/text/pretokenizer.h"

namespace trireme::text {

// A read-only tokenizer; safe to share between threads. Encoding equals the reference with
// add_special_tokens=false, and with what is around() the text with add_special_tokens=true.
class Bpe {
 public:
  // Reads a tokenizer.json from untrusted text: model BPE, normalizers NFC/NFD/NFKC/NFKD, byte-level pre-tokenizers,
  // added tokens, merges as "a b" or [a, b], ignore_merges, TemplateProcessing. Unsupported parts (byte_fallback,
  // dropout, affixes, truncation, padding, other components) are Error{kData} naming the part and beginning with
  // `what`.
  Bpe(std::string_view text, const std::string& what);

  std::int32_t vocab_size() const { return static_cast<std::int32_t>(tokens_.size()); }
  void encode(std::string_view text, std::vector<std::int32_t>& out) const;
  // Ids outside [0, vocab_size) or without a token: Error{kData}.
  std::string decode(std::span<const std::int32_t> ids) const;
  // The id of an added token such as "<|endoftext|>", or -1.
  std::int32_t added_token(std::string_view content) const;
  const AroundText& around() const { return around_; }
  // Digest of everything that decides the ids of a text, independent of the file's formatting.
  std::uint64_t digest() const;

 private:
  struct Added {
    std::string content;
    std::int32_t id = 0;
    bool left_strip = false;
    bool right_strip = false;
    bool normalized = false;
  };
  struct Merge {
    std::int32_t rank = 0;
    std::int32_t result = 0;
  };
  struct Part;

  Bpe(const Json& json, const std::string& what);
  void read_added(const Json& json, const std::string& what);
  void read_vocabulary(const Json& model, const std::string& what);
  void read_merges(const Json& model, const std::string& what);
  void place(std::int32_t id, std::string bytes, const std::string& what);

  const Added* added_at(std::string_view text, bool normalized) const;
  std::vector<Part> split_added(std::string_view text, bool normalized) const;
  void encode_plain(std::string_view text, std::vector<std::int32_t>& out) const;
  void merge_word(std::string_view word, std::vector<std::int32_t>& out) const;

  std::string rules_;  // normalizer and pre-tokenizer as JSON
  AroundText around_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  bool ignore_merges_ = false;
  std::vector<std::string> tokens_;  // bytes of each id
  std::vector<bool> present_;
  std::unordered_map<std::string, std::int32_t> ids_;  // model vocabulary, by bytes
  std::unordered_map<std::uint64_t, Merge> merges_;    // by left << 32 | right
  std::int32_t byte_ids_[256] = {};
  std::vector<Added> added_;  // longest first
  bool added_begins_[256] = {};
};

}  // namespace trireme::text
