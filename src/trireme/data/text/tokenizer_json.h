// Writes the tokenizer.json of a byte-level BPE.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/json.h"

namespace trireme::text {

// The "ByteLevel" pre-tokenizer and decoder of GPT-2.
Json byte_level_pieces();

struct ByteLevelBpe {
  std::vector<std::string> tokens;                              // bytes of each id, from 0
  std::vector<std::pair<std::int32_t, std::int32_t>> merges{};  // ids that are joined, in order
  std::vector<std::string> special{};  // added tokens, whose ids follow those of `tokens`
};

std::string print_tokenizer_json(const ByteLevelBpe& bpe);

// That of the bytes tokenizer: 256 tokens without a merge.
std::string bytes_tokenizer_json();

}  // namespace trireme::text
