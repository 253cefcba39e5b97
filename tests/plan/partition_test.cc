// Where models are cut: by cost, by memory, by hand.
#include "trireme/plan/compile/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/harness/examples.h"
#include "trireme/base/error.h"

namespace trireme::plan::partition_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A chain with these costs; the first `frozen` nodes have no gradients.
Program chain(const std::vector<double>& flops, int frozen = 0,
              const std::vector<std::int64_t>& numel = {}) {
  Program program{.name = "chain"};
  program.values.push_back({.name = "x", .bytes = 4, .differentiable = false});
  for (int n = 0; n < static_cast<int>(flops.size()); ++n) {
    const std::string name = fmt::format("n{}", n);
    const auto size = numel.empty() ? 128 : numel[n];
    program.units.push_back({.name = name, .numel = size, .trainable = n >= frozen});
    program.values.push_back({.name = name + ".out", .bytes = 4});
    program.nodes.push_back({.name = name,
                             .reads = {n},
                             .writes = {n + 1},
                             .units = {n},
                             .loss = n + 1 == static_cast<int>(flops.size()),
                             .flops = flops[n]});
  }
  return program;
}

double slowest(const std::vector<double>& flops, const Cuts& cuts) {
  double most = 0;
  std::size_t at = 0;
  for (int count : cuts) {
    most = std::max(most, std::accumulate(flops.begin() + static_cast<long>(at),
                                          flops.begin() + static_cast<long>(at) + count, 0.0));
    at += static_cast<std::size_t>(count);
  }
  return most;
}

// The best of all ways to cut, found by trying them.
double least(const std::vector<double>& flops, std::size_t begin, int stages) {
  if (stages == 1)
    return std::accumulate(flops.begin() + static_cast<long>(begin), flops.end(), 0.0);
  double best = 1e300, sum = 0;
  for (std::size_t end = begin + 1; end + static_cast<std::size_t>(stages) - 1 <= flops.size();
       ++end) {
    sum += flops[end - 1];
    best = std::min(best, std::max(sum, least(flops, end, stages - 1)));
  }
  return best;
}

TEST(Balance, IsTheBestOfAllCuts) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> flops(4 + random() % 8);
    for (double& each : flops) each = 1.0 + static_cast<double>(random() % 20);
    const int stages = 2 + static_cast<int>(random() % 3);
    const Cuts cuts = balance(chain(flops), {.ranks = stages}, {});
    EXPECT_EQ(std::accumulate(cuts.begin(), cuts.end(), 0), static_cast<int>(flops.size()));
    EXPECT_LE(slowest(flops, cuts), 1.01 * least(flops, 0, stages));
  }
}

// An encoder of 24 small blocks before 32 large ones: blocks are not counted but weighed.
TEST(Balance, WeighsBlocks) {
  std::vector<double> flops(24, 1.0);
  flops.insert(flops.end(), 32, 8.0);
  const double share = (24 + 32 * 8) / 4.0;
  const Cuts trained = balance(chain(flops), {.ranks = 4}, {});
  EXPECT_LE(slowest(flops, trained), share + 8);
  EXPECT_GT(trained[0], 24);
  // Frozen, it costs a third.
  std::vector<double> weighed = flops;
  for (int n = 0; n < 24; ++n) weighed[n] = 1.0 / 3;
  const Cuts frozen = balance(chain(flops, 24), {.ranks = 4}, {});
  EXPECT_LE(slowest(weighed, frozen), 1.01 * least(weighed, 0, 4) + 1e-9);
}

// Of equally fast cuts the one that needs least memory on its fullest stage: a large embedding is alone, and
// the first stages, which keep most micro-batches, get fewer blocks.
TEST(Balance, PutsMemoryWhereThereIsRoom) {
  const std::vector<double> flops = {0, 1, 1, 1, 1};
  const Cuts cuts = balance(chain(flops, 0, {100000, 100, 100, 100, 100}), {.ranks = 3}, {});
  EXPECT_LE(slowest(flops, cuts), 2);
  EXPECT_EQ(cuts[0], 2 - 1) << "the embedding and no block, or one: " << cuts[0];
  Program saving = chain({1, 1, 1, 1, 1, 1, 1});
  for (Node& node : saving.nodes) node.saved_bytes = 1 << 20;
  const Cuts kept = balance(saving, {.ranks = 4}, {.micro_batches = 8});
  EXPECT_EQ(kept.front(), 1);
}

// A V puts the first and the last stage on one rank: ranks are balanced, not stages.
TEST(Balance, EvensOutRanksOfSeveralChunks) {
  const std::vector<double> flops = {1, 1, 1, 1, 1, 1};
  const Pipeline pipeline{.placement = schedules::Placement::kV, .ranks = 2, .chunks = 2};
  const Cuts cuts = balance(chain(flops), pipeline, {});
  EXPECT_EQ(cuts[0] + cuts[3], 3);
  EXPECT_EQ(cuts[1] + cuts[2], 3);
}

TEST(Balance, GoesByMeasuredSeconds) {
  Program program = chain({1, 1, 1, 1});
  const double seconds[] = {3, 1, 1, 1};
  for (std::size_t n = 0; n < 4; ++n)
    program.nodes[n].seconds = NodeSeconds{seconds[n], seconds[n], seconds[n]};
  EXPECT_THAT(balance(program, {.ranks = 2}, {}), ElementsAre(1, 3));
}

TEST(Balance, RefusesMoreStagesThanNodes) {
  try {
    balance(chain({1, 1}), {.ranks = 3}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("take 2 or fewer"));
  }
}

TEST(Place, ByHandOrNotAtAll) {
  const Program placed = place(chain({1, 1, 1, 1}), {1, 1, 1, 1},
                               {.placement = schedules::Placement::kV, .ranks = 2, .chunks = 2});
  std::vector<std::pair<int, int>> places;
  for (const Node& node : placed.nodes) places.emplace_back(node.stage, node.chunk);
  EXPECT_THAT(places,
              ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(1, 1), std::pair(0, 1)));
  for (const Cuts& wrong : {Cuts{2, 1}, Cuts{4}, Cuts{0, 4}, Cuts{2, 2, 1}})
    EXPECT_THROW(place(chain({1, 1, 1, 1}), wrong, {.ranks = 2}), Error);
}

}  // namespace
}  // namespace trireme::plan::partition_test
