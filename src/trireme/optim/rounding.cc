#include "trireme/optim/rounding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <algorithm>

#include "trireme/base/simd.h"
#include "trireme/optim/rounding_bits.h"

namespace trireme::optim {
namespace {

TRIREME_SIMD_CLONES void round_stochastically(std::uint32_t key, std::uint32_t column,
                                              const float* __restrict from,
                                              std::uint16_t* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = rounded_by_noise(from[i], key, column + static_cast<std::uint32_t>(i));
}

TRIREME_SIMD_CLONES void round_to_nearest(const float* __restrict from,
                                          std::uint16_t* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = rounded_to_nearest(from[i]);
}

TRIREME_SIMD_CLONES void widen(const std::uint16_t* __restrict from, float* __restrict to,
                               std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = widened(from[i]);
}

std::int64_t as_signed(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

// h ^ (h >> bits) for 32-bit integers, the shift filling with zeros.
at::Tensor fold(const at::Tensor& h, int bits) {
  const std::int64_t lower = (std::int64_t{1} << (32 - bits)) - 1;
  return h.bitwise_right_shift(bits).bitwise_and_(lower).bitwise_xor_(h);
}

}  // namespace

void round_to_bf16(const Rounding& rounding, std::int64_t place, const float* from,
                   c10::BFloat16* to, std::int64_t count) {
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  if (!rounding.stochastic) return round_to_nearest(from, out, count);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t column = (place + done) % kPlacesOfKey;
    const std::int64_t part = std::min(count - done, kPlacesOfKey - column);
    round_stochastically(key_of(rounding, place + done), static_cast<std::uint32_t>(column),
                         from + done, out + done, part);
    done += part;
  }
}

void widen_bf16(const c10::BFloat16* from, float* to, std::int64_t count) {
  widen(reinterpret_cast<const std::uint16_t*>(from), to, count);
}

at::Tensor rounded_to_bf16(const Rounding& rounding, std::int64_t place, const at::Tensor& from) {
  if (!rounding.stochastic) return from.to(at::kBFloat16);
  at::Tensor bits = from.contiguous().clone().view(at::kInt);
  for (std::int64_t done = 0; done < from.numel();) {
    const std::int64_t column = (place + done) % kPlacesOfKey;
    const std::int64_t part = std::min(from.numel() - done, kPlacesOfKey - column);
    at::Tensor h = at::arange(column, column + part, bits.options()) * as_signed(kSpread);
    h = fold(h.bitwise_xor_(as_signed(key_of(rounding, place + done))), 16).mul_(as_signed(kFirst));
    h = fold(h, 15).mul_(as_signed(kSecond));
    bits.narrow(0, done, part).add_(h.bitwise_right_shift_(16).bitwise_and_(0xFFFF));
    done += part;
  }
  // What is left below bf16 is zero, so that the conversion is exact.
  return bits.bitwise_and_(as_signed(0xFFFF0000u)).view(at::kFloat).to(at::kBFloat16);
}

}  // namespace trireme::optim
