// Rounding of fp32 to bf16, stochastic or to nearest, as a function of where a number belongs and not of who rounds it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace trireme::optim {

// How one tensor is rounded: stochastically, a number goes up with the probability that is its distance from the
// bf16 below it, so that it stays itself on average; the noise is a hash of (key, place).
struct Rounding {
  bool stochastic = false;
  std::uint64_t key = 0;
};

// to[i] = from[i], whose place is place + i. Finite numbers and infinities.
void round_to_bf16(const Rounding& rounding, std::int64_t place, const float* from,
                   c10::BFloat16* to, std::int64_t count);
void widen_bf16(const c10::BFloat16* from, float* to, std::int64_t count);

// The same by LibTorch's operators, and the same bits: fp32 to bf16.
at::Tensor rounded_to_bf16(const Rounding& rounding, std::int64_t place, const at::Tensor& from);

}  // namespace trireme::optim
