// Steps and batches, where some batches are left out.
#include "trireme/data/loaders/left_out.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "trireme/base/error.h"

namespace trireme::loaders::left_out_test {
namespace {

std::vector<std::int64_t> batches(const LeftOut& left_out, std::int64_t steps) {
  std::vector<std::int64_t> batches;
  for (std::int64_t step = 0; step < steps; ++step) batches.push_back(left_out.batch(step));
  return batches;
}

TEST(LeftOut, AStepHasTheNextBatchThatIsNotLeftOut) {
  LeftOut left_out;
  EXPECT_EQ(batches(left_out, 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  left_out.add({2, 3});
  EXPECT_EQ(batches(left_out, 4), (std::vector<std::int64_t>{0, 1, 4, 5}));
  left_out.add({6, 6});
  EXPECT_EQ(batches(left_out, 6), (std::vector<std::int64_t>{0, 1, 4, 5, 7, 8}));
  EXPECT_EQ(left_out.ranges(), (std::vector<BatchRange>{{2, 3}, {6, 6}}));
  left_out.add({4, 4});
  EXPECT_EQ(left_out.ranges(), (std::vector<BatchRange>{{2, 4}, {6, 6}}));
  left_out.add({5, 9});
  EXPECT_EQ(left_out.ranges(), (std::vector<BatchRange>{{2, 9}}));
}

TEST(LeftOut, AnyRangesAgreeWithCountingOneByOne) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    LeftOut left_out;
    std::set<std::int64_t> out;
    for (int range = 0; range < 6; ++range) {
      const std::int64_t first = random() % 60, last = first + random() % 9;
      left_out.add({first, last});
      for (std::int64_t batch = first; batch <= last; ++batch) out.insert(batch);
    }
    std::vector<std::int64_t> wanted;
    for (std::int64_t batch = 0; std::ssize(wanted) < 70; ++batch)
      if (!out.contains(batch)) wanted.push_back(batch);
    EXPECT_EQ(batches(left_out, 70), wanted);
    EXPECT_EQ(LeftOut(left_out.ranges()), left_out);
  }
}

TEST(LeftOut, WhatIsNoLogIsRefused) {
  for (const std::vector<BatchRange>& ranges : std::vector<std::vector<BatchRange>>{
           {{-1, 2}}, {{3, 2}}, {{1, 2}, {3, 4}}, {{5, 6}, {1, 2}}})
    EXPECT_THROW(LeftOut{ranges}, Error);
}

}  // namespace
}  // namespace trireme::loaders::left_out_test
