#include "apps/worker/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace trireme::app::arena_test {
namespace {

constexpr std::size_t kMB = std::size_t{1} << 20;

TEST(Arena, JoinsFreeNeighbours) {
  Arena arena;
  void* const a = arena.take(kMB);
  void* const b = arena.take(kMB);
  void* const c = arena.take(kMB);
  void* const last = arena.take(kMB);
  for (void* block : {a, c, b}) EXPECT_TRUE(arena.give(block));
  EXPECT_EQ(arena.take(3 * kMB), a);
  EXPECT_TRUE(arena.give(last));
  EXPECT_FALSE(arena.give(last));
  int other = 0;
  EXPECT_FALSE(arena.give(&other));
}

TEST(Arena, TakesTheSmallestRangeThatHolds) {
  Arena arena;
  void* const large = arena.take(3 * kMB);
  arena.take(kMB);
  void* const small = arena.take(2 * kMB);
  arena.take(kMB);
  arena.give(large);
  arena.give(small);
  EXPECT_EQ(arena.take(2 * kMB - 5), small);
  EXPECT_EQ(arena.take(3 * kMB), large);
}

// A gradient that stays leaves the room of activations whole.
TEST(Arena, LargeBlocksLieAtTheEnd) {
  Arena arena;
  std::vector<void*> activations;
  for (int i = 0; i < 20; ++i) activations.push_back(arena.take(2 * kMB));
  for (void* block : activations) arena.give(block);
  auto* const gradient = static_cast<unsigned char*>(arena.take(16 * kMB));
  EXPECT_EQ(gradient, static_cast<unsigned char*>(activations[0]) + 24 * kMB);
  EXPECT_EQ(arena.take(2 * kMB), activations[0]);
  EXPECT_EQ(arena.take(22 * kMB), static_cast<unsigned char*>(activations[0]) + 2 * kMB);
  EXPECT_EQ(arena.extent(), 40 * kMB);
}

// Blocks of mixed sizes keep their bytes, and the same step needs no more room the second time.
TEST(Arena, StepsOfMixedSizesDoNotGrow) {
  Arena arena;
  std::size_t extent = 0, most = 0;
  for (int step = 0; step < 3; ++step) {
    std::mt19937 random(7);
    std::multimap<unsigned, std::pair<unsigned char*, std::size_t>> live;
    std::size_t bytes = 0;
    for (unsigned i = 0; i < 400; ++i) {
      while (!live.empty() && live.begin()->first <= i) {
        const auto [block, size] = live.begin()->second;
        ASSERT_EQ(block[0], block[size - 1]);
        ASSERT_TRUE(arena.give(block));
        bytes -= size;
        live.erase(live.begin());
      }
      const std::size_t size = 1 + random() % (4 * kMB);
      auto* const block = static_cast<unsigned char*>(arena.take(size));
      block[0] = block[size - 1] = static_cast<unsigned char>(i);
      live.emplace(i + 1 + random() % 40, std::pair(block, size));
      most = std::max(most, bytes += size);
    }
    for (const auto& [end, block] : live) arena.give(block.first);
    if (step == 0) extent = arena.extent();
    EXPECT_EQ(arena.extent(), extent);
  }
  EXPECT_LT(extent, 2 * most);
}

double resident_anonymous() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (double kib = 0; word == "RssAnon:" && file >> kib) return 1024 * kib;
  return 0;
}

// Sizes that are new in every step fragment the ranges, of which then some have no memory.
TEST(Arena, HoldsLittleMoreThanItsMostUsedBytes) {
  Arena arena;
  std::mt19937 random(3);
  const double before = resident_anonymous();
  std::size_t most = 0;
  double held = 0;
  for (int step = 0; step < 40; ++step) {
    std::vector<std::pair<unsigned char*, std::size_t>> live;
    std::size_t bytes = 0;
    for (int i = 0; i < 60; ++i) {
      const std::size_t size = kMB / 4 + random() % (2 * kMB);
      auto* const block = static_cast<unsigned char*>(arena.take(size));
      std::memset(block, i, size);
      live.emplace_back(block, size);
      most = std::max(most, bytes += size);
      held = std::max(held, resident_anonymous() - before);
      if (i % 3 == 2) {
        const std::size_t one = random() % live.size();
        ASSERT_EQ(live[one].first[0], live[one].first[live[one].second - 1]);
        ASSERT_TRUE(arena.give(live[one].first));
        bytes -= live[one].second;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(one));
      }
    }
    for (const auto& [block, size] : live) arena.give(block);
  }
  EXPECT_GT(arena.extent(), Arena::most_held(most));  // addresses do fragment
  EXPECT_LT(held, static_cast<double>(Arena::most_held(most) + 4 * kMB));
}

TEST(Arena, RefusesWhatNobodyHas) {
  Arena arena;
  EXPECT_THROW(arena.take(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_NE(arena.take(kMB), nullptr);
}

}  // namespace
}  // namespace trireme::app::arena_test
