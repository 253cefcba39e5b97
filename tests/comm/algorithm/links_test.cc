// Measured links: orders of rings against all orders, shares of owners against a search, and the choice of an algorithm.
#include "trireme/comm/algorithm/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

namespace trireme::algorithm::links_test {
namespace {

constexpr double kMegabit = 0.125e6;

Links equal_links(const std::vector<double>& megabits) {
  Links links;
  for (const double rate : megabits)
    links.hosts.push_back({.name = std::to_string(links.hosts.size()),
                           .up = rate * kMegabit,
                           .down = rate * kMegabit});
  return links;
}

std::pair<double, double> cost(const Matrix& costs, const std::vector<int>& way) {
  double dearest = 0, sum = 0;
  for (std::size_t at = 0; at < way.size(); ++at) {
    const double edge = costs[way[at]][way[(at + 1) % way.size()]];
    dearest = std::max(dearest, edge);
    sum += edge;
  }
  return {dearest, sum};
}

Matrix random_costs(int hosts, std::mt19937& random) {
  std::lognormal_distribution<double> draw(0, 1.5);
  Matrix costs(static_cast<std::size_t>(hosts), std::vector<double>(hosts, 0));
  for (auto& row : costs)
    for (double& edge : row) edge = draw(random);
  return costs;
}

TEST(Links, RingsAreThoseOfAnExhaustiveSearch) {
  std::mt19937 random(7);
  for (int hosts = 2; hosts <= 8; ++hosts)
    for (int round = 0; round < 20; ++round) {
      const Matrix costs = random_costs(hosts, random);
      const std::vector<int> found = ring_order(costs);
      std::vector<int> way(static_cast<std::size_t>(hosts));
      std::iota(way.begin(), way.end(), 0);
      std::pair<double, double> best = {INFINITY, INFINITY};
      do best = std::min(best, cost(costs, way));
      while (std::next_permutation(way.begin() + 1, way.end()));
      const auto [dearest, sum] = cost(costs, found);
      EXPECT_DOUBLE_EQ(dearest, best.first) << hosts << " hosts, round " << round;
      EXPECT_NEAR(sum, best.second, 1e-9 * best.second) << hosts << " hosts, round " << round;
    }
}

// Above the exact limit: all hosts once, and no worse than their numbers.
TEST(Links, LongRingsPassEveryHostOnce) {
  std::mt19937 random(3);
  for (const int hosts : {kExactRing, kExactRing + 1, 30}) {
    const Matrix costs = random_costs(hosts, random);
    std::vector<int> way = ring_order(costs), numbers(static_cast<std::size_t>(hosts));
    std::iota(numbers.begin(), numbers.end(), 0);
    EXPECT_LT(cost(costs, way).first, cost(costs, numbers).first);
    EXPECT_EQ(way.front(), 0);
    std::ranges::sort(way);
    EXPECT_EQ(way, numbers);
  }
}

// One host at 10 and three at 100 Mbit/s: with nothing to own, the slow one sends every byte once instead of 1.5 times.
TEST(Links, SlowHostsOwnLess) {
  const Links links = equal_links({10, 100, 100, 100});
  const std::vector<double> shares = owner_shares(links), even(4, 0.25);
  EXPECT_NEAR(shares[0], 0, 1e-6);
  EXPECT_GE(owned_seconds(links, even) / owned_seconds(links, shares), 1.4);
  EXPECT_NEAR(owned_seconds(links, even) / owned_seconds(links, shares), 1.5, 1e-6);
}

// No other shares in steps of 1/24 are faster, whatever the rates and codecs.
TEST(Links, SharesAreTheBest) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> rate(5, 200), bytes(0.2, 4);
  constexpr int kSteps = 24;
  for (int round = 0; round < 30; ++round) {
    Links links = equal_links({rate(random), rate(random), rate(random), rate(random)});
    for (HostLink& host : links.hosts) host.down = rate(random) * kMegabit;
    const double sent = bytes(random), returned = bytes(random);
    const std::vector<double> shares = owner_shares(links, sent, returned);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
    EXPECT_GE(*std::ranges::min_element(shares), 0);
    double best = INFINITY;
    for (int a = 0; a <= kSteps; ++a)
      for (int b = 0; a + b <= kSteps; ++b)
        for (int c = 0; a + b + c <= kSteps; ++c) {
          const double step = 1.0 / kSteps;
          best = std::min(
              best,
              owned_seconds(links, {a * step, b * step, c * step, (kSteps - a - b - c) * step},
                            sent, returned));
        }
    EXPECT_LE(owned_seconds(links, shares, sent, returned), best * (1 + 1e-9)) << round;
  }
  const std::vector<std::int64_t> parts = split(100'000, owner_shares(equal_links({10, 40, 40})));
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), 100'000);
  EXPECT_EQ(parts[0] % kServed, 0);
}

// Pairs across an ocean are slow unless they are neighbours of their coast.
TEST(Links, SumsOfRingsAreNeverChosenWhereTheyMustBeCanonical) {
  Links links = equal_links({1000, 1000, 1000, 1000, 1000});
  for (int from = 0; from < 5; ++from)
    for (int to = 0; to < 5; ++to)
      if (from != to && (from + 1) % 5 != to)
        links.pairs.push_back({.from = from, .to = to, .rate = kMegabit});
  EXPECT_EQ(choose(links, false).kind, Kind::kRing);
  EXPECT_EQ(choose(links, false).order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_NE(choose(links, true).kind, Kind::kRing);
  EXPECT_EQ(choose(equal_links({100, 100, 100, 100}), false).kind, Kind::kAuto);
}

TEST(Links, TheRelayCarriesWhatIsRelayed) {
  Links links = equal_links({100, 100});
  EXPECT_DOUBLE_EQ(seconds(links, {{0, 1e6}, {1e6, 0}}), 1e6 / (100 * kMegabit));
  links.pairs = {{.from = 0, .to = 1, .rate = 100 * kMegabit, .relayed = true},
                 {.from = 1, .to = 0, .rate = 100 * kMegabit, .relayed = true}};
  links.relay = 20 * kMegabit;
  EXPECT_DOUBLE_EQ(seconds(links, {{0, 1e6}, {1e6, 0}}), 2e6 / (20 * kMegabit));
  EXPECT_DOUBLE_EQ(seconds(links.of({1, 0}), {{0, 1e6}, {0, 0}}), 1e6 / (20 * kMegabit));
}

TEST(Links, ServersHalveWhatHostsSend) {
  const Links links = equal_links({100, 100, 100, 100});
  const double direct = all_reduce_seconds(links, {}, 1e6);
  EXPECT_DOUBLE_EQ(direct / served_seconds(links, 4, 100 * kMegabit, 1e6), 1.5);
  EXPECT_DOUBLE_EQ(served_seconds(links, 1, 100 * kMegabit, 1e6), 4e6 / (100 * kMegabit));
}

}  // namespace
}  // namespace trireme::algorithm::links_test
