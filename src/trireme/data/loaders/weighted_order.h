// The order of samples of several data sets, each with its share of them.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/data/loaders/sample_order.h"

namespace trireme::loaders {

// Every place draws a data set by its share and then one of its samples, with replacement, by the seed and the place
// alone. Any rank may ask for any place, and every layout and every resumed run draws the same samples.
class WeightedOrder {
 public:
  // `sizes`: samples of each data set, > 0, whose numbers follow one another; `shares` add up to 1.
  WeightedOrder(std::vector<std::int64_t> sizes, std::vector<double> shares, std::uint64_t seed);

  // The place is its own epoch, so that a sample that is drawn again is seen in another way.
  SampleOrder::Place at(std::int64_t place) const;

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<double> shares_;
  std::int64_t seed_;
};

}  // namespace trireme::loaders
