#include "trireme/model/account/per_rank.h"

#include <gtest/gtest.h>

namespace trireme::model::per_rank_test {
namespace {

using config::ContextMethod;

config::Model model(std::int64_t heads, std::int64_t kv_heads) {
  return {.layers = 1,
          .hidden = 8 * heads,
          .heads = heads,
          .kv_heads = kv_heads,
          .ffn = 64,
          .vocab = 64,
          .seq_len = 48};
}

// Heads, key-value heads and tokens of the rank with most, by hand.
TEST(PerRank, AttentionHasTheHeadsOfTheLargestRank) {
  struct Case {
    std::int64_t heads, kv_heads;
    PerRank rank;
    std::int64_t most_heads, most_kv_heads, tokens;
  };
  const auto ulysses = ContextMethod::kUlysses;
  for (const Case& c : std::vector<Case>{
           {8, 2, {}, 8, 2, 48},
           {8, 2, {.tp = 3}, 3, 2, 48},
           {8, 2, {.cp = 4}, 8, 2, 12},
           {8, 2, {.cp = 4, .context = ulysses}, 2, 1, 48},
           {8, 4, {.cp = 4, .context = ulysses}, 2, 1, 48},
           {5, 5, {.cp = 3, .context = ulysses}, 2, 2, 48},
           {5, 1, {.cp = 3, .context = ulysses}, 2, 1, 48},
           {12, 4, {.cp = 6, .context = ulysses}, 2, 2, 48},
           {12, 2, {.tp = 2, .cp = 2, .context = ulysses}, 3, 1, 48},
           {8, 1, {.cp = 4, .context = ContextMethod::kHierarchical, .context_inner = 2}, 4, 1, 24},
       }) {
    const Sizes sizes(model(c.heads, c.kv_heads), c.rank);
    EXPECT_EQ(sizes.attention.heads, c.most_heads) << c.heads << " on " << c.kv_heads;
    EXPECT_EQ(sizes.attention.q, 8 * c.most_heads);
    EXPECT_EQ(sizes.attention.kv, 8 * c.most_kv_heads) << c.heads << " on " << c.kv_heads;
    EXPECT_EQ(sizes.attention.tokens, c.tokens);
  }
}

}  // namespace
}  // namespace trireme::model::per_rank_test
