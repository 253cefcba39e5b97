#include "trireme/data/loaders/samples/masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/config/error_of.h"
#include "trireme/base/error.h"

namespace trireme::loaders::masks_test {
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

// Of 24 samples on 16 x 16 x 8 tokens, as the original cuts the batch of a device: its shares, and those of 6000 groups by
// the same rule in NumPy.
TEST(Masks, CutToABatchTheyHaveTheSharesOfTheReference) {
  constexpr TokenGrid grid{.frames = 8, .rows = 16, .columns = 16};
  constexpr std::uint64_t kGroups = 6000, kSamples = 24;
  const auto shares = [&](const BlockRule& rule) {
    std::pair<double, double> sum;
    for (std::uint64_t group = 0; group < kGroups; ++group) {
      std::vector<std::uint64_t> samples;
      for (std::uint64_t sample = 0; sample < kSamples; ++sample)
        samples.push_back(1000 + group * kSamples + sample);
      const Mask mask = draw_cut_masks(grid, rule, group, samples).back();
      sum.first += static_cast<double>(mask.context.size()) / (kGroups * 2048.0);
      sum.second += static_cast<double>(mask.targets.size()) / (kGroups * 2048.0);
    }
    return sum;
  };
  const auto [near_context, near_targets] = shares(kShort);
  EXPECT_NEAR(near_context, 0.248, 0.01);
  EXPECT_NEAR(near_context, 0.2424, 0.003);
  EXPECT_NEAR(near_targets, 0.465, 0.01);
  EXPECT_NEAR(near_targets, 0.4744, 0.003);
  const auto [far_context, far_targets] = shares(kLong);
  EXPECT_NEAR(far_context, 0.066, 0.01);
  EXPECT_NEAR(far_context, 0.0637, 0.003);
  EXPECT_NEAR(far_targets, 0.704, 0.01);
  EXPECT_NEAR(far_targets, 0.7021, 0.003);
}

// All are as long as the shortest; what the others lose is at their ends, so of late frames.
TEST(Masks, CutToABatchTheyKeepTheirFirstTokens) {
  const std::vector<std::uint64_t> keys = {11, 12, 13, 14, 15, 16};
  const std::vector<Mask> masks = draw_cut_masks(kGrid, kShort, 3, keys);
  ASSERT_EQ(masks.size(), keys.size());
  std::size_t dropped = 0;
  for (const Mask& mask : masks) {
    EXPECT_EQ(mask.context.size(), masks[0].context.size());
    EXPECT_EQ(mask.targets.size(), masks[0].targets.size());
    // A frame of what is hidden in every frame: from it all of the first frame follows.
    for (const auto& [kept, other] :
         {std::pair{&mask.context, &mask.targets}, std::pair{&mask.targets, &mask.context}}) {
      std::set<std::int64_t> first;
      for (const std::int64_t token : *kept) first.insert(token % 256);
      for (const std::int64_t token : *other) EXPECT_FALSE(first.contains(token % 256));
      EXPECT_TRUE(std::ranges::is_sorted(*kept));
      std::int64_t expected = 0;
      for (std::int64_t token = 0; token <= kept->back(); ++token)
        expected += first.contains(token % 256);
      EXPECT_EQ(static_cast<std::int64_t>(kept->size()), expected) << "no gap before the end";
      dropped += 2 * first.size() - kept->size();
    }
  }
  EXPECT_GT(dropped, 0);
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
}  // namespace trireme::loaders::masks_test
