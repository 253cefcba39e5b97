#include "trireme/plan/compile/cheapest_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace trireme::plan::cheapest_choice_test {
namespace {

using Things = std::vector<std::vector<Choice>>;

double best_of_all(const Things& things, const std::vector<double>& limits) {
  double best = std::numeric_limits<double>::infinity();
  std::function<void(std::size_t, double, std::vector<double>)> visit =
      [&](std::size_t i, double cost, const std::vector<double>& held) {
        for (std::size_t k = 0; k < limits.size(); ++k)
          if (i == things.size() && held[k] > limits[k]) return;
        if (i == things.size()) {
          best = std::min(best, cost);
          return;
        }
        for (const Choice& option : things[i]) {
          std::vector<double> next = held;
          for (std::size_t k = 0; k < limits.size(); ++k) next[k] += option.held[k];
          visit(i + 1, cost + option.cost, next);
        }
      };
  visit(0, 0, std::vector<double>(limits.size(), 0.0));
  return best;
}

TEST(CheapestChoice, IsTheBestOfAll) {
  std::mt19937_64 random(5);
  const auto upto = [&](int most) {
    return static_cast<double>(random() % static_cast<unsigned>(most));
  };
  int none = 0;
  for (int round = 0; round < 400; ++round) {
    const std::size_t limits = 1 + static_cast<std::size_t>(round % 3);
    Things things(1 + random() % 6);
    std::vector<double> most(limits, 0.0);
    for (std::vector<Choice>& options : things) {
      options.resize(1 + random() % 4);
      for (Choice& option : options) {
        option.cost = upto(1000);
        for (std::size_t k = 0; k < limits; ++k) option.held.push_back(upto(1000) - 100);
      }
      for (std::size_t k = 0; k < limits; ++k) most[k] += options[0].held[k];
    }
    for (double& limit : most) limit = limit * (50 + upto(100)) / 100;
    const double best = best_of_all(things, most);
    const std::vector<std::size_t> choice = cheapest_choice(things, most);
    if (choice.empty()) {
      EXPECT_EQ(best, std::numeric_limits<double>::infinity()) << round;
      ++none;
      continue;
    }
    double cost = 0;
    for (std::size_t k = 0; k < limits; ++k) {
      double held = 0;
      for (std::size_t i = 0; i < things.size(); ++i) held += things[i][choice[i]].held[k];
      EXPECT_LE(held, most[k]) << round;
    }
    for (std::size_t i = 0; i < things.size(); ++i) cost += things[i][choice[i]].cost;
    EXPECT_NEAR(cost, best, 1e-9 * best) << round;
  }
  EXPECT_GT(none, 20);
  EXPECT_LT(none, 300);
}

// Sixty things of which no two are alike leave more partial choices open than are followed. What is best at some prices
// is best within what it holds, so that at the limits a choice not worse than it is known.
TEST(CheapestChoice, FitsWhereOnlyThePromisingAreFollowed) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> upto(0, 1);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::vector<Choice>> things(60);
    std::vector<double> most(2, 0.0);
    double known = 0;
    for (std::vector<Choice>& options : things) {
      for (int o = 0; o < 5; ++o)
        options.push_back({.cost = upto(random), .held = {upto(random), upto(random)}});
      const auto best = std::ranges::min_element(options, {}, [](const Choice& one) {
        return one.cost + one.held[0] + 0.8 * one.held[1];
      });
      known += best->cost;
      for (std::size_t k = 0; k < 2; ++k) most[k] += best->held[k];
    }
    for (double& limit : most) limit += 0.3;
    const std::vector<std::size_t> choice = cheapest_choice(things, most);
    ASSERT_EQ(choice.size(), things.size()) << round;
    double cost = 0;
    std::vector<double> held(2, 0.0);
    for (std::size_t i = 0; i < things.size(); ++i) {
      cost += things[i][choice[i]].cost;
      for (std::size_t k = 0; k < 2; ++k) held[k] += things[i][choice[i]].held[k];
    }
    EXPECT_LE(held[0], most[0]) << round;
    EXPECT_LE(held[1], most[1]) << round;
    EXPECT_LE(cost, 1.02 * known) << round;
    EXPECT_GE(cost, known - 1.8 * 0.3) << round;  // as the prices say
  }
}

}  // namespace
}  // namespace trireme::plan::cheapest_choice_test
