#include "trireme/data/loaders/sample_order.h"

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::loaders {

SampleOrder::SampleOrder(std::int64_t count, std::uint64_t seed)
    : count_(count), seed_(seed), half_bits_(1) {
  TRIREME_CHECK(count > 0, "an order over {} samples", count);
  while ((std::int64_t{1} << (2 * half_bits_)) < count) ++half_bits_;
}

// A Feistel network with any round function is a permutation of 2^(2 half_bits) numbers. Walking its cycle until a
// number below `count` appears permutes those (Black & Rogaway 2002). Random access, no table, at most four walks on
// average.
SampleOrder::Place SampleOrder::at(std::int64_t consumed) const {
  constexpr int kRounds = 6;
  const std::int64_t epoch = consumed / count_;
  const std::uint64_t key = mix(seed_, static_cast<std::uint64_t>(epoch));
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto number = static_cast<std::uint64_t>(consumed % count_);
  do {
    std::uint64_t left = number >> half_bits_;
    std::uint64_t right = number & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = mix(mix(key, static_cast<std::uint64_t>(round)), right) & mask;
      const std::uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    number = (left << half_bits_) | right;
  } while (number >= static_cast<std::uint64_t>(count_));
  return {.epoch = epoch, .sample = static_cast<std::int64_t>(number)};
}

}  // namespace trireme::loaders
