// Draws: random numbers that are a pure function of a key and of how many were drawn.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "trireme/base/hash.h"

namespace trireme::data {

class Draws {
 public:
  explicit Draws(std::uint64_t key) : key_(key) {}

  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // In 0 .. count - 1.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(uniform() * static_cast<double>(count));
  }
  // From N(0, 1) (Box & Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t next() { return mix(key_, drawn_++); }

  std::uint64_t key_;
  std::uint64_t drawn_ = 0;
};

}  // namespace trireme::data
