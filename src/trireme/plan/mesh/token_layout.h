// Which tokens of a sequence each rank of context parallelism holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/plan/mesh/share.h"

namespace trireme::mesh {

struct TokenLayout {
  std::int64_t tokens = 0;  // of all ranks
  // By rank, ranges of positions. A rank's tokens lie in memory in this order, which is ascending.
  std::vector<std::vector<Share>> ranges{};

  int ranks() const { return static_cast<int>(ranges.size()); }
  std::int64_t tokens_of(int rank) const;
  // Position of each of the rank's tokens.
  std::vector<std::int64_t> positions(int rank) const;
  // The same layout if neighbours, `count` each, hold the chunks together that they share.
  TokenLayout joined(int count) const;
  // The layout of neighbours first .. first + count - 1 within the tokens that they hold together.
  TokenLayout among(int first, int count) const;
};

// Rank r holds share(tokens, r, ranks).
TokenLayout in_order(std::int64_t tokens, int ranks);

// With n ranks the sequence is cut into 2n equal chunks, and rank r holds chunks r and 2n - 1 - r. Under a causal mask all
// ranks then have equal work. Throws Error{kUsage} where `tokens` is not a multiple of 2n; one rank takes any number.
TokenLayout zigzag(std::int64_t tokens, int ranks);

struct BalancedLayout {
  TokenLayout layout;
  double imbalance = 1;  // scores of the rank with the most over the mean
};

// Equal numbers of tokens, and as equal scores as chunks allow; `scores` has those of each position. Each rank gets k
// chunks. The chunk with most scores goes first, each to the rank with the fewest scores that still needs one (Graham
// 1969). k is 2 or more, with chunks of at least kFewestTokens beyond 2. It is the smallest k with an imbalance of at most
// kEven, or the one with the least. For one document, whose scores rise, the result is the zigzag. Neighbours that
// exchange heads, `together` each, have equal work: they count as one rank and share its chunks. Throws as zigzag().
inline constexpr double kEven = 1.05;
inline constexpr std::int64_t kFewestTokens = 16;
BalancedLayout balanced(std::span<const std::int64_t> scores, int ranks, int together = 1);
// The most chunks that it gives to all ranks together.
constexpr std::int64_t most_chunks(std::int64_t tokens, int ranks) {
  return std::max(2 * std::int64_t{ranks}, tokens / kFewestTokens);
}

}  // namespace trireme::mesh
