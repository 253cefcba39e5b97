#include "trireme/plan/mesh/zigzag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "trireme/base/error.h"

namespace trireme::mesh::zigzag_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Zigzag, PairsEarlyChunksWithLateOnes) {
  EXPECT_THAT(zigzag_positions(8, 0, 2), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(zigzag_positions(8, 1, 2), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(zigzag_begins(24, 1, 4), ElementsAre(3, 18));
  EXPECT_THAT(zigzag_positions(5, 0, 1), ElementsAre(0, 1, 2, 3, 4));  // odd, on one rank
}

TEST(Zigzag, EveryTokenHasOnePlaceAndAllRanksTheSameWork) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const std::int64_t tokens = 2 * ranks * 7;
    std::set<std::int64_t> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto positions = zigzag_positions(tokens, rank, ranks);
      ASSERT_EQ(std::ssize(positions), zigzag_tokens(tokens, ranks));
      std::int64_t pairs = 0;  // that a causal mask lets see
      for (const std::int64_t position : positions) {
        EXPECT_TRUE(seen.insert(position).second);
        pairs += position + 1;
      }
      EXPECT_EQ(pairs * ranks, tokens * (tokens + 1) / 2);
    }
    EXPECT_EQ(std::ssize(seen), tokens);
  }
}

TEST(Zigzag, RefusesWhatDoesNotSplit) {
  try {
    zigzag_tokens(1026, 4);
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_THAT(e.what(), HasSubstr("1026 tokens"));
    EXPECT_THAT(e.what(), HasSubstr("4 context-parallel ranks"));
    EXPECT_THAT(e.what(), HasSubstr("2 x 4 = 8, such as 1032"));
  }
}

}  // namespace
}  // namespace trireme::mesh::zigzag_test
