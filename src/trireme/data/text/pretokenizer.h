// Cuts text into pretokens, within which byte-pair merges happen, as a tokenizer.json describes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"

namespace trireme::text {

// A compiled regular expression that isolates its matches: every match and every gap between two matches is a pretoken.
// Invalid UTF-8 separates matches and never fails. Safe to share between threads.
class Splitter {
 public:
  // Throws Error{kData} beginning with `what` when the pattern does not compile.
  Splitter(const std::string& pattern, const std::string& what);
  ~Splitter();
  Splitter(Splitter&&) noexcept;

  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The chain of a tokenizer.json's "pre_tokenizer": Sequence, Split with behavior Isolated, Digits and
// ByteLevel. Anything else is Error{kData} naming it; one ByteLevel must be there.
class PreTokenizer {
 public:
  PreTokenizer(const Json& json, const std::string& what);

  // Pretokens of `text`, in order; views into `text` or into `storage`, which receives a copy when the file asks for a
  // leading space.
  std::vector<std::string_view> split(std::string_view text, std::string& storage) const;

 private:
  void add(const Json& json, const std::string& what);

  std::vector<Splitter> splitters_;
  bool byte_level_ = false;
  bool add_prefix_space_ = false;
};

// Unicode normalisation forms of a tokenizer.json's "normalizer": null, NFC, NFD, NFKC, NFKD or a Sequence
// of them.
class Normalizer {
 public:
  Normalizer(const Json& json, const std::string& what);

  bool changes() const { return !forms_.empty(); }
  // Error{kData} when the text is not valid UTF-8.
  std::string apply(std::string_view text) const;

 private:
  std::vector<int> forms_;  // utf8proc option sets
};

}  // namespace trireme::text
