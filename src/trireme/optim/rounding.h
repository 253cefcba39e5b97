// Rounding of fp32 to bf16, stochastic or to nearest, as a function of a number's place, independent of the rank.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace trireme::optim {

// Rounding of one tensor. In stochastic rounding the probability of rounding up is the distance from the bf16 below, so
// that the mean is the number itself; the noise is a hash of (key, place).
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
