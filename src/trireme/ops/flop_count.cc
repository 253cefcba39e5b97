#include "trireme/ops/flop_count.h"

#include <utility>

namespace trireme::ops {
namespace {

thread_local FlopCount* innermost = nullptr;

}  // namespace

FlopCount::FlopCount() : outer_(std::exchange(innermost, this)) {}
FlopCount::~FlopCount() { innermost = outer_; }

bool counting_flops() { return innermost != nullptr; }

void count_flops(double flops) {
  if (innermost != nullptr) innermost->flops_ += flops;
}

at::Tensor counted(at::Tensor result, std::int64_t inner) {
  count_flops(2.0 * static_cast<double>(result.numel()) * static_cast<double>(inner));
  return result;
}

}  // namespace trireme::ops
