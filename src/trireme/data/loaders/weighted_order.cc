#include "trireme/data/loaders/weighted_order.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/loaders/samples/synthetic.h"

namespace trireme::loaders {

WeightedOrder::WeightedOrder(std::vector<std::int64_t> sizes, std::vector<double> shares,
                             std::uint64_t seed)
    : sizes_(std::move(sizes)),
      shares_(std::move(shares)),
      seed_(static_cast<std::int64_t>(mix(seed, hash64("weighted order")))) {
  TRIREME_CHECK(!sizes_.empty() && sizes_.size() == shares_.size(), "{} sizes and {} shares",
                sizes_.size(), shares_.size());
}

SampleOrder::Place WeightedOrder::at(std::int64_t place) const {
  Draws draws(seed_, place);
  double left = draws.uniform(0, 1);
  std::size_t set = 0;
  std::int64_t first = 0;
  for (; set + 1 < sizes_.size() && left >= shares_[set]; ++set) {
    left -= shares_[set];
    first += sizes_[set];
  }
  return {.epoch = place, .sample = first + draws.below(sizes_[set])};
}

}  // namespace trireme::loaders
