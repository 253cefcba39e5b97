#include "bench/scoreboard/score.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::scoreboard::score_test {
namespace {

Case one(double measured, double forecast, std::string group = {}) {
  return {.group = std::move(group), .measured = measured, .forecast = forecast};
}

TEST(Score, MeansOfPercentErrors) {
  std::vector<Case> cases = {one(100, 110), one(200, 190), one(10, 10)};
  cases[0].null = 120;
  cases[1].null = 200;
  cases[0].low = 90, cases[0].high = 105;
  cases[1].low = 200, cases[1].high = 210;
  cases[2].low = 11, cases[2].high = 12;
  const Score s = score(cases);
  EXPECT_EQ(s.cases, 3U);
  EXPECT_NEAR(s.mape, 5, 1e-12);
  EXPECT_NEAR(s.largest, 10, 1e-12);
  EXPECT_NEAR(s.bias, (10.0 - 5) / 3, 1e-12);
  EXPECT_NEAR(*s.null_mape, 10, 1e-12);
  EXPECT_NEAR(*s.coverage, 200.0 / 3, 1e-12);
  EXPECT_FALSE(s.tau);
  EXPECT_FALSE(s.regret);
}

TEST(Score, NothingOfNothing) {
  std::vector<Case> cases = {one(1, 2)};
  cases[0].unscored = "no inputs";
  for (const Score& s : {score({}), score(cases, true)}) {
    EXPECT_EQ(s.cases, 0U);
    EXPECT_FALSE(s.coverage || s.null_mape || s.tau || s.regret);
  }
}

TEST(Score, OtherMeasures) {
  EXPECT_EQ(error(5, 4, Measure::kPoints), 1);
  EXPECT_EQ(error(5, 4, Measure::kExcess), 1);
  EXPECT_EQ(error(3, 4, Measure::kExcess), 0);
  EXPECT_EQ(error(16, 4, Measure::kDoublings), 2);
  EXPECT_EQ(error(1, 4, Measure::kDoublings), -2);
  EXPECT_EQ(error(1, 0, Measure::kWrong), 100);
  EXPECT_EQ(error(0, 1, Measure::kWrong), -100);
  EXPECT_EQ(error(1, 1, Measure::kWrong), 0);
  EXPECT_EQ(error(0, 0, Measure::kPercent), 0);
  EXPECT_TRUE(std::isinf(error(1, 0, Measure::kPercent)));
  EXPECT_TRUE(std::isinf(error(0, 4, Measure::kDoublings)));
  EXPECT_NEAR(error(-9, -10, Measure::kPercent), 10, 1e-12);
}

TEST(Score, NineOfTen) {
  std::vector<Case> cases;
  for (int i = 1; i <= 20; ++i) cases.push_back(one(100, 100 + i));
  EXPECT_NEAR(score(cases).ninth, 18, 1e-9);
  cases.resize(1);
  EXPECT_NEAR(score(cases).ninth, 1, 1e-9);
}

// Kendall 1945: ties count for neither side, tau-b divides by what is untied.
TEST(Score, KendallsTauB) {
  EXPECT_EQ(kendall_tau({one(1, 10), one(2, 20), one(3, 30)}), 1);
  EXPECT_EQ(kendall_tau({one(1, 30), one(2, 20), one(3, 10)}), -1);
  EXPECT_NEAR(*kendall_tau({one(1, 10), one(2, 30), one(3, 20)}), 1.0 / 3, 1e-12);
  EXPECT_NEAR(*kendall_tau({one(1, 10), one(1, 20), one(2, 30)}), 2 / std::sqrt(6.0), 1e-12);
  EXPECT_FALSE(kendall_tau({one(1, 10), one(1, 20)}));
  EXPECT_FALSE(kendall_tau({one(1, 10), one(2, 10)}));
  EXPECT_FALSE(kendall_tau({one(1, 10)}));
}

TEST(Score, RanksWithinGroups) {
  const std::vector<Case> cases = {one(100, 50, "a"), one(110, 40, "a"), one(10, 1, "b"),
                                   one(20, 2, "b"),   one(30, 3, "b"),   one(5, 9, "alone")};
  const Score s = score(cases, true);
  EXPECT_NEAR(*s.tau, 0, 1e-12);     // -1 and 1
  EXPECT_NEAR(*s.regret, 5, 1e-12);  // 10 and 0: a group of one leaves no choice
  EXPECT_FALSE(score(cases).tau);
}

}  // namespace
}  // namespace trireme::scoreboard::score_test
