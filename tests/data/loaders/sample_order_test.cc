#include "trireme/data/loaders/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace trireme::loaders::sample_order_test {
namespace {

std::vector<std::int64_t> epoch(const SampleOrder& order, std::int64_t count, std::int64_t number) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    const SampleOrder::Place place = order.at(number * count + i);
    EXPECT_EQ(place.epoch, number);
    samples.push_back(place.sample);
  }
  return samples;
}

TEST(SampleOrder, EveryEpochDrawsEverySampleOnce) {
  for (std::int64_t count : {1, 2, 3, 5, 64, 100, 1023, 4097}) {
    const SampleOrder order(count, 7);
    for (std::int64_t number : {0, 1, 5}) {
      const std::vector<std::int64_t> samples = epoch(order, count, number);
      const std::set<std::int64_t> distinct(samples.begin(), samples.end());
      EXPECT_EQ(static_cast<std::int64_t>(distinct.size()), count);
      EXPECT_EQ(*distinct.begin(), 0);
      EXPECT_EQ(*distinct.rbegin(), count - 1);
    }
  }
}

TEST(SampleOrder, EpochsAndSeedsDiffer) {
  const SampleOrder order(1000, 7);
  EXPECT_NE(epoch(order, 1000, 0), epoch(order, 1000, 1));
  EXPECT_NE(epoch(order, 1000, 0), epoch(SampleOrder(1000, 8), 1000, 0));
  EXPECT_EQ(epoch(order, 1000, 3), epoch(SampleOrder(1000, 7), 1000, 3));
}

// Neighbours in the file must not stay neighbours: the mean distance of two random of n is n/3.
TEST(SampleOrder, Shuffles) {
  const std::int64_t count = 5000;
  const std::vector<std::int64_t> samples = epoch(SampleOrder(count, 1), count, 0);
  double distance = 0;
  for (std::size_t i = 1; i < samples.size(); ++i)
    distance += static_cast<double>(std::abs(samples[i] - samples[i - 1]));
  EXPECT_NEAR(distance / static_cast<double>(count), static_cast<double>(count) / 3,
              0.03 * static_cast<double>(count));
}

}  // namespace
}  // namespace trireme::loaders::sample_order_test
