#include "trireme/plan/mesh/token_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "trireme/base/error.h"

namespace trireme::mesh::token_layout_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

TEST(Zigzag, PairsEarlyChunksWithLateOnes) {
  EXPECT_THAT(zigzag(8, 2).positions(0), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(zigzag(8, 2).positions(1), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(zigzag(24, 4).ranges[1], ElementsAre(Share{3, 6}, Share{18, 21}));
  EXPECT_THAT(zigzag(5, 1).positions(0), ElementsAre(0, 1, 2, 3, 4));  // odd, on one rank
}

// Every token has one rank, and all ranks have equally many; returns the scores of each.
Numbers expect_shared(const TokenLayout& layout, const Numbers& scores) {
  EXPECT_EQ(layout.tokens, std::ssize(scores));
  Numbers loads, all;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const Numbers positions = layout.positions(rank);
    EXPECT_TRUE(std::ranges::is_sorted(positions));
    EXPECT_EQ(std::ssize(positions), layout.tokens / layout.ranks());
    EXPECT_EQ(std::ssize(positions), layout.tokens_of(rank));
    loads.push_back(0);
    for (const std::int64_t position : positions)
      loads.back() += scores.at(static_cast<std::size_t>(position));
    all.insert(all.end(), positions.begin(), positions.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  return loads;
}

double imbalance(const Numbers& loads) {
  return static_cast<double>(*std::ranges::max_element(loads) * std::ssize(loads)) /
         static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
}

// Scores of each token under a causal mask within documents of these lengths.
Numbers scores_of(const Numbers& lengths) {
  Numbers scores;
  for (const std::int64_t length : lengths)
    for (std::int64_t i = 1; i <= length; ++i) scores.push_back(i);
  return scores;
}

TEST(Zigzag, GivesEachTokenOneRankAndAllRanksEqualWork) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const Numbers scores = scores_of({2 * ranks * 7});
    EXPECT_EQ(imbalance(expect_shared(zigzag(std::ssize(scores), ranks), scores)), 1);
  }
}

TEST(Zigzag, RefusesWhatDoesNotSplit) {
  try {
    zigzag(1026, 4);
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_THAT(e.what(), HasSubstr("1026 tokens"));
    EXPECT_THAT(e.what(), HasSubstr("4 context-parallel ranks"));
    EXPECT_THAT(e.what(), HasSubstr("2 x 4 = 8, such as 1032"));
  }
}

TEST(BalancedTokens, OfOneDocumentAreTheZigzag) {
  for (const int ranks : {2, 3, 4, 8})
    for (const int together : {1, 2, ranks}) {
      if (ranks % together != 0) continue;
      const std::int64_t tokens = 2 * ranks * 48;
      const BalancedLayout even = balanced(scores_of({tokens}), ranks, together);
      EXPECT_EQ(even.layout.ranges, zigzag(tokens, ranks).ranges) << ranks << ", " << together;
      EXPECT_EQ(even.imbalance, 1);
    }
}

// 308 documents, whose lengths follow a law with a long tail.
Numbers documents(std::uint64_t seed, double sigma, std::int64_t multiple) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> length(5, sigma);
  Numbers lengths;
  std::int64_t all = 0;
  for (int i = 0; i < 308; ++i)
    all += lengths.emplace_back(8 + static_cast<std::int64_t>(length(random)));
  lengths.back() += multiple - all % multiple;
  return lengths;
}

TEST(BalancedTokens, OfManyDocumentsAreWithinFivePercent) {
  double worst_zigzag = 1;
  for (const double sigma : {0.5, 1.0, 1.5})
    for (std::uint64_t seed = 1; seed <= 2; ++seed)
      for (const auto& [ranks, together] :
           std::vector<std::pair<int, int>>{{2, 1}, {8, 1}, {8, 2}, {16, 1}}) {
        SCOPED_TRACE(fmt::format("sigma {}, seed {}, {} ranks", sigma, seed, ranks));
        const Numbers scores = scores_of(documents(seed, sigma, ranks * 128));
        const BalancedLayout even = balanced(scores, ranks, together);
        const Numbers loads = expect_shared(even.layout, scores);
        Numbers holders(static_cast<std::size_t>(ranks / together));
        for (std::size_t rank = 0; rank < loads.size(); ++rank)
          holders[rank / static_cast<std::size_t>(together)] += loads[rank];
        EXPECT_LE(even.imbalance, 1.05);
        EXPECT_DOUBLE_EQ(even.imbalance, imbalance(holders));
        worst_zigzag = std::max(
            worst_zigzag, imbalance(expect_shared(zigzag(std::ssize(scores), ranks), scores)));
      }
  EXPECT_GT(worst_zigzag, 2);
}

// Chunks no finer than needed: kernels compute long segments faster.
TEST(BalancedTokens, HaveFewChunks) {
  const BalancedLayout equal = balanced(scores_of(Numbers(64, 128)), 4);  // of equal documents
  EXPECT_EQ(equal.layout.ranges[0].size(), 2u);
  const Numbers scores = scores_of({40, 24, 200, 760});
  for (const std::vector<Share>& ranges : balanced(scores, 8).layout.ranges)
    for (const Share& range : ranges) EXPECT_GE(range.count(), kFewestTokens);
}

TEST(TokenLayout, OfNeighboursTogether) {
  const TokenLayout fine = zigzag(16, 4);
  EXPECT_EQ(fine.joined(2).ranges, zigzag(16, 2).ranges);
  EXPECT_EQ(fine.joined(4).ranges, in_order(16, 1).ranges);
  for (const int first : {0, 2}) EXPECT_EQ(fine.among(first, 2).ranges, zigzag(8, 2).ranges);
  EXPECT_EQ(fine.among(0, 4).ranges, fine.ranges);

  const TokenLayout many = balanced(scores_of(documents(1, 1, 512)), 4, 2).layout;
  const TokenLayout both = many.joined(2);
  for (const int holder : {0, 1}) {
    const Numbers positions = both.positions(holder);
    const TokenLayout within = many.among(2 * holder, 2);
    for (const int member : {0, 1}) {
      const Numbers places = within.positions(member), own = many.positions(2 * holder + member);
      for (std::size_t i = 0; i < own.size(); ++i) ASSERT_EQ(positions[places[i]], own[i]);
    }
  }
}

}  // namespace
}  // namespace trireme::mesh::token_layout_test
