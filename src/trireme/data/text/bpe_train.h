// Learns a byte-level BPE vocabulary from text (Sennrich et al. 2016, on the bytes of GPT-2's pretokens).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trireme/data/text/tokenizer/pre_tokenizers.h"

namespace trireme::text {

// Sizes of a vocabulary that can be trained: the 256 bytes and at least one merge.
inline constexpr std::int32_t kMinTrainedVocabulary = 257;
inline constexpr std::int32_t kMaxTrainedVocabulary = 1 << 20;

// Number of occurrences of each pretoken of GPT-2's pre-tokenizer in a text. Memory: that of the distinct pretokens.
class WordCounts {
 public:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };
  using Map = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;

  WordCounts();

  // Counts one document, of any bytes; no pretoken crosses its ends.
  void add(std::string_view document);
  const Map& counts() const { return counts_; }

 private:
  PreTokenizers pre_tokenizers_;
  Map counts_;
};

// The text of a Hugging Face tokenizer.json (ByteLevel pre-tokenizer and decoder) of exactly `vocab_size` tokens. Ids
// 0..255 are the bytes and the last ones the `special` tokens. Each other id joins the pair of tokens that then occurs
// most often within words; among equals, the pair whose left and then right bytes come first. Equal counts give equal
// bytes. Error{kUsage} when the size is out of range, or when no pair occurs twice before it is reached. The error
// names the largest size that works.
std::string train_bpe(const WordCounts& words, std::int32_t vocab_size,
                      const std::vector<std::string>& special = {});

}  // namespace trireme::text
