#include "trireme/data/loaders/left_out.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::loaders {

LeftOut::LeftOut(std::vector<BatchRange> ranges) : ranges_(std::move(ranges)) {
  std::int64_t free = 0;  // the first batch that the next range may have
  for (const auto& [first, last] : ranges_) {
    if (first < free || last < first)
      fail(ErrorKind::kData, "batches {} to {} left out: needs ranges from {} on", first, last,
           free);
    free = last + 2;
  }
}

std::int64_t LeftOut::batch(std::int64_t step) const {
  std::int64_t batch = step;
  for (const BatchRange& range : ranges_)
    if (batch >= range.first) batch += range.count();
  return batch;
}

void LeftOut::add(BatchRange range) {
  std::vector<BatchRange> apart;
  for (const BatchRange& other : ranges_) {
    if (other.last + 1 < range.first || range.last + 1 < other.first) {
      apart.push_back(other);
    } else {
      range.first = std::min(range.first, other.first);
      range.last = std::max(range.last, other.last);
    }
  }
  apart.push_back(range);
  std::ranges::sort(apart, {}, &BatchRange::first);
  ranges_ = std::move(apart);
}

}  // namespace trireme::loaders
