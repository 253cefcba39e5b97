// The order of samples: a pure function of the number consumed. Every layout and every resumed run therefore draws the
// same global batches, with each sample once an epoch.
#pragma once

#include <cstdint>

namespace trireme::loaders {

class SampleOrder {
 public:
  // `count` samples an epoch, > 0.
  SampleOrder(std::int64_t count, std::uint64_t seed);

  struct Place {
    std::int64_t epoch = 0;
    std::int64_t sample = 0;  // 0 .. count-1
  };
  // The sample that is drawn after `consumed` others.
  Place at(std::int64_t consumed) const;

 private:
  std::int64_t count_;
  std::uint64_t seed_;
  int half_bits_;
};

}  // namespace trireme::loaders
