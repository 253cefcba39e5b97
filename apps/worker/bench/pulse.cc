#include "pulse.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "trireme/base/clock.h"
#include "trireme/base/cpu.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::app {

Pulse::Pulse(DType compute) {
  constexpr std::int64_t kSize = 256;  // small, because it shares memory with the measured work
  constexpr int kWide = 80, kHalf = 240;
  const DType type = product_type(compute);
  a_ = at::ones({kSize, kSize}, comm::scalar_type(type));
  products_ = size_of(type) < sizeof(float) ? kHalf : kWide;
  at::mm(a_, a_);
}

double Pulse::seconds() const {
  const at::NoGradGuard none;
  const Stopwatch watch;
  for (int i = 0; i < products_; ++i) at::mm(a_, a_);
  return watch.seconds();
}

}  // namespace trireme::app
