#include "trireme/plan/binary_counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace trireme::plan::binary_counter_test {
namespace {

TEST(BinaryCounter, KeepsASumForEveryBitOfTheCount) {
  BinaryCounter counter;
  for (unsigned count = 1; count < 40; ++count) {
    EXPECT_EQ(counter.met(), std::countr_one(count - 1));
    counter.push();
    EXPECT_EQ(counter.pushed(), static_cast<int>(count));
    EXPECT_EQ(counter.in_memory(), std::popcount(count));
  }
  BinaryCounter fast(std::numeric_limits<int>::max());
  for (int count = 0; count < 5; ++count) {
    EXPECT_EQ(fast.met(), count > 0);
    fast.push();
    EXPECT_EQ(fast.in_memory(), 1);
  }
}

// Of rows, a sum for every bit of the whole ones and one for the open row.
TEST(BinaryCounter, KeepsOneSumForTheOpenRow) {
  for (int row : {1, 2, 3, 16}) {
    BinaryCounter counter(row);
    int most = 0;
    for (int count = 1; count < 100; ++count) {
      counter.push();
      EXPECT_EQ(counter.in_memory(),
                std::popcount(static_cast<unsigned>(count / row)) + (count % row != 0))
          << count << " in rows of " << row;
      most = std::max(most, counter.in_memory());
      EXPECT_EQ(most_sums(count, row), most) << count << " in rows of " << row;
    }
  }
  EXPECT_EQ(most_sums(0, 4), 0);
  EXPECT_EQ(most_sums(16, 16), 1);
  EXPECT_EQ(most_sums(16, 1), 4);
}

TEST(BinaryCounter, SumsLeaveAndThoseThatAreMetComeBack) {
  BinaryCounter counter;
  for (int count = 0; count < 3; ++count) {
    if (counter.met() > 0) {
      EXPECT_FALSE(counter.meets_here());
      EXPECT_TRUE(counter.meets_away());
      EXPECT_EQ(counter.bring_met(), counter.met());
    }
    EXPECT_TRUE(counter.meets_here());
    counter.push();
    counter.leave();
  }
  EXPECT_EQ(counter.away(), 2);  // of one and of two gradients
  EXPECT_EQ(counter.in_memory(), 0);
  EXPECT_EQ(counter.bring_all(), 2);
  EXPECT_EQ(counter.away(), 0);
  counter.push();
  EXPECT_EQ(counter.in_memory(), 1);
}

}  // namespace
}  // namespace trireme::plan::binary_counter_test
