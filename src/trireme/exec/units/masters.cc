#include "trireme/exec/units/masters.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <cstdint>

#include "trireme/base/simd.h"
#include "trireme/exec/units/flat.h"

namespace trireme::exec {
namespace {

constexpr std::uint32_t kHalfway = 0x8000;
constexpr std::uint32_t kInfinity = 0x7F800000,
                        kQuiet = 0x00400000;  // NaNs are above; some of them

TRIREME_SIMD_INLINE std::uint32_t upper_half(std::uint32_t bits) {
  const bool nan = (bits & 0x7FFFFFFF) > kInfinity;
  return (nan ? bits | kQuiet : bits + kHalfway) >> 16;
}

TRIREME_SIMD_CLONES void split_bits(const std::uint32_t* __restrict masters,
                                    std::uint16_t* __restrict params,
                                    std::uint16_t* __restrict rests, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    params[i] = static_cast<std::uint16_t>(upper_half(masters[i]));
    rests[i] = static_cast<std::uint16_t>(masters[i]);
  }
}

TRIREME_SIMD_CLONES void join_bits(const std::uint16_t* __restrict params,
                                   const std::int16_t* __restrict rests,
                                   std::uint32_t* __restrict masters, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    masters[i] = (static_cast<std::uint32_t>(params[i]) << 16) +
                 static_cast<std::uint32_t>(static_cast<std::int32_t>(rests[i]));
}

TRIREME_SIMD_CLONES void round_bits(const std::uint32_t* __restrict masters,
                                    std::uint16_t* __restrict params, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    params[i] = static_cast<std::uint16_t>(upper_half(masters[i]));
}

template <typename Body>
void for_masters(std::int64_t count, const Body& body) {
  constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread of their own
  at::parallel_for(0, count, kGrain,
                   [&](std::int64_t begin, std::int64_t end) { body(begin, end - begin); });
}

template <typename T>
T* raw(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

at::Tensor rounded_params(const at::Tensor& masters) {
  const at::Tensor bits = masters.view(at::kInt);
  return at::where(masters.isnan(), bits.bitwise_or(static_cast<std::int64_t>(kQuiet)),
                   bits.add(static_cast<std::int64_t>(kHalfway)))
      .bitwise_right_shift(16)
      .to(at::kShort)
      .view(at::kBFloat16);
}

}  // namespace

void split_masters(const at::Tensor& masters, const at::Tensor& params, const at::Tensor& rests) {
  if (!on_host(masters.device())) {
    params.copy_(rounded_params(masters));
    // From int32 to int16 the lower bits stay.
    rests.copy_(masters.view(at::kInt));
    return;
  }
  for_masters(masters.numel(), [&](std::int64_t begin, std::int64_t count) {
    split_bits(raw<std::uint32_t>(masters) + begin, raw<std::uint16_t>(params) + begin,
               raw<std::uint16_t>(rests) + begin, count);
  });
}

void join_masters(const at::Tensor& params, const at::Tensor& rests, const at::Tensor& masters) {
  if (!on_host(masters.device())) {
    masters.view(at::kInt).copy_(
        params.view(at::kShort).to(at::kInt).bitwise_left_shift(16).add_(rests));
    return;
  }
  for_masters(masters.numel(), [&](std::int64_t begin, std::int64_t count) {
    join_bits(raw<std::uint16_t>(params) + begin, raw<std::int16_t>(rests) + begin,
              raw<std::uint32_t>(masters) + begin, count);
  });
}

void round_masters(const at::Tensor& masters, const at::Tensor& params) {
  if (masters.scalar_type() != at::kFloat || params.scalar_type() != at::kBFloat16) {
    params.copy_(masters);
    return;
  }
  if (!on_host(masters.device())) {
    params.copy_(rounded_params(masters));
    return;
  }
  for_masters(masters.numel(), [&](std::int64_t begin, std::int64_t count) {
    round_bits(raw<std::uint32_t>(masters) + begin, raw<std::uint16_t>(params) + begin, count);
  });
}

}  // namespace trireme::exec
