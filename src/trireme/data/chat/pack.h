// Conversations packed into rows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/config/chat.h"
#include "trireme/config/sections/preference.h"
#include "trireme/data/text/token_file.h"

namespace trireme::chat {

// Part of a document that lies in a row: `count` places from its token `first` on, each of which predicts the next token.
struct PackedPiece {
  std::int64_t document = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const PackedPiece&) const = default;
};

// Documents as rows of `seq_len` places, packed by best fit. One of n tokens takes n - 1 places, as the last token is only
// a target. Longer ones are cut, split or refused (Error{kData}); the parts of a split one are packed separately.
// `ways` of data.chat end the refusal.
std::vector<std::vector<PackedPiece>> packed_documents(
    const text::TokenFile& tokens, std::int64_t seq_len, config::Chat::Long longer,
    std::string_view ways = "long=cut or long=split");

// Documents 2k and 2k + 1 as comparison k, packed in the same way: both lie in one row, one after the other. Those that
// need more than a row are refused (Error{kData}) or cut, each to half of a row or to what the other one leaves.
std::vector<std::vector<PackedPiece>> packed_comparisons(const text::TokenFile& tokens,
                                                         std::int64_t seq_len,
                                                         config::Chat::Long longer);

// Documents of a sample of preferences: both conversations of a comparison, or an answer with a reward.
inline std::int64_t documents_of(config::Compares compares) {
  return compares == config::Compares::kRewards ? 1 : 2;
}
// Comparisons, or answers with rewards, which are packed as conversations.
std::vector<std::vector<PackedPiece>> packed_samples(config::Compares compares,
                                                     const text::TokenFile& tokens,
                                                     std::int64_t seq_len,
                                                     config::Chat::Long longer);

}  // namespace trireme::chat
