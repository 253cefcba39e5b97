// LeftOut: the batches that a run leaves out of their order, and the step that each of the others is of.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::loaders {

// Global batches first .. last in the order of samples, from 0.
struct BatchRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t count() const { return last - first + 1; }
  bool operator==(const BatchRange&) const = default;
};

class LeftOut {
 public:
  LeftOut() = default;
  // Throws Error{kData} unless they ascend and neither touch nor overlap.
  explicit LeftOut(std::vector<BatchRange> ranges);

  // The batch of the step-th step, from 0: the step-th that is not left out.
  std::int64_t batch(std::int64_t step) const;
  // Steps whose batches come before range.first keep them.
  void add(BatchRange range);

  const std::vector<BatchRange>& ranges() const { return ranges_; }
  bool operator==(const LeftOut&) const = default;

 private:
  std::vector<BatchRange> ranges_;  // ascending, with batches between them
};

}  // namespace trireme::loaders
