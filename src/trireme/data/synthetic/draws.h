// Random numbers that depend on their key alone: the same in every order, on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "trireme/base/hash.h"

namespace trireme::synthetic {

class Draws {
 public:
  // Draws of a sample: keyed by its seed, kind, split and number.
  Draws(std::initializer_list<std::uint64_t> words) {
    for (const std::uint64_t word : words) key_ = mix(key_, word);
  }

  std::uint64_t next() { return mix(key_, ++count_); }
  // In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  // 0 to count - 1.
  int below(int count) { return static_cast<int>(unit() * count); }
  // low to high, both included.
  int from(int low, int high) { return low + below(high - low + 1); }

 private:
  std::uint64_t key_ = 0x7472697265u;
  std::uint64_t count_ = 0;
};

}  // namespace trireme::synthetic
