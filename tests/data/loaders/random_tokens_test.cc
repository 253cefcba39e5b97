#include "trireme/data/loaders/tokens/random_tokens.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

namespace trireme::loaders::random_tokens_test {
namespace {

TEST(RandomTokens, AreAFunctionOfTheSamplesNumber) {
  const auto all = random_tokens(3, 4, 16, 50);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].sizes(), at::IntArrayRef({4, 16}));
  for (std::int64_t row = 0; row < 4; ++row)
    for (std::size_t part = 0; part < 2; ++part)
      EXPECT_TRUE(at::equal(random_tokens(3 + row, 1, 16, 50)[part][0], all[part][row]));
  EXPECT_FALSE(at::equal(all[0][0], all[0][1]));
  // Each target is the token that follows.
  EXPECT_TRUE(at::equal(all[0].narrow(1, 1, 15), all[1].narrow(1, 0, 15)));
  EXPECT_GE(all[0].min().item<std::int64_t>(), 0);
  EXPECT_LT(all[0].max().item<std::int64_t>(), 50);
}

}  // namespace
}  // namespace trireme::loaders::random_tokens_test
