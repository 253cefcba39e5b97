// Floating-point operations of matrix products and attention, counted as they are computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::ops {

// Counts the operations that this thread computes during the lifetime of the object. A multiply-add is two operations.
// Counts nest: the innermost count of the thread takes all.
class FlopCount {
 public:
  FlopCount();
  ~FlopCount();
  FlopCount(const FlopCount&) = delete;
  FlopCount& operator=(const FlopCount&) = delete;

  // NaN if something was computed whose operations are unknown.
  double flops() const { return flops_; }

 private:
  friend void count_flops(double flops);
  double flops_ = 0;
  FlopCount* outer_;
};

// Whether this thread has a count.
bool counting_flops();
// Adds to the innermost count of this thread, if there is one.
void count_flops(double flops);

// Counts the product that gave `result`, of which each element is a sum of `inner` products; returns `result`.
at::Tensor counted(at::Tensor result, std::int64_t inner);

}  // namespace trireme::ops
