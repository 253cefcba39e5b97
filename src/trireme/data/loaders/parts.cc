#include "trireme/data/loaders/parts.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::loaders {

Parts::Parts(std::vector<media::Part> parts) : parts_(std::move(parts)) {
  TRIREME_CHECK(!parts_.empty(), "no data set");
  for (const media::Part& part : parts_)
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + std::ssize(part.numbers));
}

std::vector<std::int64_t> Parts::sizes() const {
  std::vector<std::int64_t> sizes;
  for (const media::Part& part : parts_) sizes.push_back(std::ssize(part.numbers));
  return sizes;
}

std::size_t Parts::set_of(std::int64_t index) const {
  TRIREME_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
}

Parts::Place Parts::at(std::int64_t index) const {
  const std::size_t set = set_of(index);
  const media::Part& part = parts_[set];
  return {.samples = part.samples.get(),
          .number = part.numbers[index - begin(set)],
          .set = static_cast<std::int64_t>(set)};
}

std::int64_t Parts::size_around(std::int64_t index) const {
  const std::size_t set = set_of(index);
  return ends_[set] - begin(set);
}

std::int64_t Parts::next(std::int64_t index, std::int64_t tried) const {
  const std::int64_t first = begin(set_of(index));
  return first + (index - first + tried) % size_around(index);
}

}  // namespace trireme::loaders
