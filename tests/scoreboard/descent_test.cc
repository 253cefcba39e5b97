#include "bench/scoreboard/descent.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::scoreboard::descent_test {
namespace {

constexpr std::optional<std::size_t> kAll = std::nullopt;

Unknown unknown(double expected) { return {.at = 0, .low = -2, .high = 2, .expected = expected}; }

TEST(Descent, FindsWhatManyErrorsAgreeOnNotTheirMean) {
  std::vector<Unknown> unknowns = {unknown(0), unknown(0)};
  const Errors errors = [](const std::vector<double>& at, std::optional<std::size_t>) {
    const double difference = at[0] - at[1];
    return std::vector<double>{at[0] - 0.7, difference - 0.3, difference - 0.3, difference - 5};
  };
  descend(unknowns, {100, 100, 100, 100}, errors, 400);
  EXPECT_NEAR(unknowns[0].at, 0.7, 0.01);
  EXPECT_NEAR(unknowns[1].at, 0.4, 0.01);
}

TEST(Descent, LeavesWhatNothingTellsWhereItIsExpected) {
  std::vector<Unknown> unknowns = {unknown(0), unknown(0.5)};
  const Errors errors = [](const std::vector<double>& at, std::optional<std::size_t>) {
    return std::vector<double>{at[0] - 0.7};
  };
  descend(unknowns, {100}, errors, 400);
  EXPECT_NEAR(unknowns[1].at, 0.5, 1e-3);
}

TEST(Descent, StaysWithinBoundsAndTrials) {
  std::vector<Unknown> unknowns = {unknown(0)};
  int asked = 0;
  const Errors errors = [&](const std::vector<double>& at, std::optional<std::size_t> moved) {
    if (moved != kAll) {
      EXPECT_EQ(*moved, 0U);
    }
    ++asked;
    return std::vector<double>{at[0] - 9};
  };
  descend(unknowns, {100}, errors, 40);
  EXPECT_EQ(unknowns[0].at, 2);
  EXPECT_LE(asked, 80);
  unknowns[0].at = 0;
  descend(unknowns, {100}, errors, 1);
  EXPECT_EQ(unknowns[0].at, 0);
}

TEST(Descent, LossIsASquareFirstAndAbsoluteFar) {
  EXPECT_EQ(loss(0), 0);
  EXPECT_NEAR(loss(0.001), 0.001 * 0.001 / 0.02, 1e-6);
  EXPECT_NEAR(loss(-1), 0.99, 1e-4);
}

}  // namespace
}  // namespace trireme::scoreboard::descent_test
