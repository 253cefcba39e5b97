#include "trireme/data/masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/config/error_of.h"
#include "trireme/base/error.h"

namespace trireme::data::masks_test {
namespace {

constexpr TokenGrid kGrid{.frames = 2, .rows = 16, .columns = 16};
constexpr BlockRule kShort{.blocks = 8, .scale = 0.15}, kLong{.blocks = 2, .scale = 0.7};

std::set<BlockSize> sizes(double scale) {
  std::set<BlockSize> all;
  for (double aspect = 0.75; aspect < 1.5; aspect += 1e-4)
    all.insert(block_size(kGrid, scale, aspect));
  return all;
}

TEST(Masks, BlocksHaveTheSizesOfTheReference) {
  const std::set<BlockSize> narrow = {{5, 7}, {6, 6}, {6, 7}, {7, 5}, {7, 6}, {8, 5}};
  const std::set<BlockSize> wide = {{12, 14}, {12, 15}, {13, 13}, {13, 14}, {14, 12},
                                    {14, 13}, {15, 12}, {16, 11}, {16, 12}};
  for (const BlockSize& size : sizes(kShort.scale))
    EXPECT_TRUE(narrow.contains(size)) << size.rows << " x " << size.columns;
  for (const BlockSize& size : sizes(kLong.scale))
    EXPECT_TRUE(wide.contains(size)) << size.rows << " x " << size.columns;
}

// The shares of the reference were measured over as many draws.
TEST(Masks, ContextsHaveTheSharesOfTheReference) {
  constexpr int kDraws = 6000;
  const auto share = [](const BlockRule& rule) {
    double sum = 0;
    for (std::uint64_t key = 0; key < kDraws; ++key)
      sum += static_cast<double>(draw_mask(kGrid, rule, key).context.size());
    return sum / (kDraws * 512.0);
  };
  EXPECT_NEAR(share(kShort), 0.380, 3 * 0.076 * std::sqrt(2.0 / kDraws) + 0.0005);
  EXPECT_NEAR(share(kLong), 0.190, 3 * 0.070 * std::sqrt(2.0 / kDraws) + 0.0005);
}

TEST(Masks, ContextAndTargetsAreAllTokensOnce) {
  for (const BlockRule& rule : {kShort, kLong})
    for (std::uint64_t key = 0; key < 50; ++key) {
      const Mask mask = draw_mask(kGrid, rule, key);
      std::set<std::int64_t> all(mask.context.begin(), mask.context.end());
      all.insert(mask.targets.begin(), mask.targets.end());
      EXPECT_EQ(all.size(), mask.context.size() + mask.targets.size());
      EXPECT_EQ(all.size(), 512);
      EXPECT_FALSE(mask.context.empty());
      EXPECT_FALSE(mask.targets.empty());
      // What is hidden is hidden in every frame.
      for (std::int64_t token : mask.targets)
        EXPECT_TRUE(std::ranges::binary_search(mask.targets, (token + 256) % 512));
    }
}

TEST(Masks, AreAFunctionOfTheKey) {
  EXPECT_EQ(draw_mask(kGrid, kShort, 5).context, draw_mask(kGrid, kShort, 5).context);
  EXPECT_NE(draw_mask(kGrid, kShort, 5).context, draw_mask(kGrid, kShort, 6).context);
}

// Blocks of nearly a frame leave something only in some draws; blocks of all of it never do.
TEST(Masks, AreDrawnAgainWhereNothingIsLeftToSee) {
  const TokenGrid small{.frames = 1, .rows = 3, .columns = 3};
  for (std::uint64_t key = 0; key < 200; ++key)
    EXPECT_FALSE(draw_mask(small, {.blocks = 4, .scale = 0.5}, key).context.empty());
  EXPECT_THAT(config::usage_error_of([] {
                draw_mask({.frames = 1, .rows = 2, .columns = 2}, {.blocks = 1, .scale = 1}, 1);
              }),
              testing::HasSubstr("left nothing to see"));
}

}  // namespace
}  // namespace trireme::data::masks_test
