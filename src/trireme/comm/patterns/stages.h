// Stages: a reduction that is made in several rounds, and a buffer that is worked on in parts.
#pragma once

#include <algorithm>
#include <cstddef>

#include "trireme/comm/exchange.h"

namespace trireme::comm {

// Bytes of a buffer that are under way at a time, in memory of their own.
inline constexpr std::size_t kStep = std::size_t{4} << 20;

// A reduction in several steps: the first adds values as they are given, the last has the result's type.
struct Stages {
  explicit Stages(const Reduction& all)
      : whole(all),
        sum(Reduction::block(all.from, all.max ? Reduce::kMax : Reduce::kSum).to),
        first{all.from, sum, all.max, 1},
        middle{sum, sum, all.max, 1},
        last{sum, all.to, all.max, all.divisor} {}
  // Of a round: the first one, the last one, both or neither.
  const Reduction& of(bool begins, bool ends) const {
    if (begins) return ends ? whole : first;
    return ends ? last : middle;
  }

  Reduction whole;
  DType sum;  // in which partial sums are kept
  Reduction first, middle, last;
};

inline std::size_t width(DType type) { return size_of(type); }

// Calls body(begin, end) for parts of slices, so many bytes of each, all of which together have about kStep bytes.
template <typename Body>
void in_steps(const Slices& slices, std::size_t element, Body body) {
  const std::size_t step =
      std::max<std::size_t>(kStep / slices.size() / 64 * 64, 64) / element * element;
  const std::size_t longest = std::ranges::max(slices, {}, &Slice::bytes).bytes;
  std::size_t begin = 0;
  do {
    body(begin, begin + step);
    begin += step;
  } while (begin < longest);
}

}  // namespace trireme::comm
