#include "apps/worker/memory/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "trireme/base/most_held.h"

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

// Blocks that are larger in every step fit into no range of the steps before, which small blocks keep apart.
TEST(Arena, HoldsLittleMoreThanItsMostUsedBytes) {
  constexpr int kBlocks = 20, kSteps = 10, kKeptSteps = 3;
  Arena arena;
  const double before = resident_anonymous();
  std::deque<std::pair<unsigned char*, int>> small;  // with the step that filled it
  std::size_t used = 0, most = 0;
  double held = 0;
  const auto take = [&](std::size_t size, int step) {
    auto* const block = static_cast<unsigned char*>(arena.take(size));
    std::memset(block, step, size);
    most = std::max(most, used += size);
    held = std::max(held, resident_anonymous() - before);
    return block;
  };
  for (int step = 0; step < kSteps; ++step) {
    const std::size_t size = kMB + static_cast<std::size_t>(step) * kMB / 8;
    std::vector<unsigned char*> large;
    for (int i = 0; i < kBlocks; ++i) {
      large.push_back(take(size, step));
      small.emplace_back(take(kMB / 4, step), step);
    }
    for (unsigned char* const block : large) {
      ASSERT_EQ(block[0] + block[size - 1], 2 * step);
      ASSERT_TRUE(arena.give(block));
      used -= size;
    }
    while (small.front().second <= step - kKeptSteps) {
      ASSERT_EQ(small.front().first[kMB / 4 - 1], small.front().second);
      ASSERT_TRUE(arena.give(small.front().first));
      used -= kMB / 4;
      small.pop_front();
    }
  }
  EXPECT_GT(arena.extent(), most_held(most) + 4 * kMB);  // its addresses fragment
  EXPECT_LT(held, static_cast<double>(most_held(most) + 2 * kMB));
}

TEST(Arena, RefusesWhatNobodyHas) {
  Arena arena;
  EXPECT_THROW(arena.take(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_NE(arena.take(kMB), nullptr);
}

}  // namespace
}  // namespace trireme::app::arena_test
