// Updates of Elementwise on the CPU whose masters and states are in bf16.
#pragma once

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>

#include "trireme/base/hash.h"
#include "trireme/optim/elementwise_wide.h"
#include "trireme/optim/rounding_bits.h"

namespace trireme::optim {

TRIREME_SIMD_INLINE float wide_gradient(float x) { return x; }
TRIREME_SIMD_INLINE float wide_gradient(std::uint16_t x) { return widened(x); }

// Elements whose noise has the same keys (of the parameter, then of the states), the first of them at `column`.
template <typename Rule, bool kStochastic, typename Gradient, typename... State>
TRIREME_SIMD_CLONES void step_short(const typename Rule::template Factors<float>& f,
                                    const std::array<std::uint32_t, 1 + kStatesOf<Rule>>& keys,
                                    std::uint32_t column, std::int64_t count,
                                    std::uint16_t* __restrict param,
                                    const Gradient* __restrict grad, State* __restrict... state) {
  const auto rounded =
      [](float x, std::uint32_t key, std::uint32_t place) __attribute__((always_inline)) {
    return kStochastic ? rounded_by_noise(x, key, place) : rounded_to_nearest(x);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    float p = widened(param[i]), states[] = {widened(state[i])...};
    Rule::step(f, p, wide_gradient(grad[i]), states);
    const std::uint32_t place = column + static_cast<std::uint32_t>(i);
    param[i] = rounded(p, keys[0], place);
    std::size_t at = 0;
    ((state[i] = rounded(states[at], keys[at + 1], place), ++at), ...);
  }
}

template <typename Stored, typename T>
Stored* stored(const at::Tensor& tensor) {
  return reinterpret_cast<Stored*>(tensor.data_ptr<T>());
}

template <typename Rule, bool kStochastic, typename Gradient, typename StoredGradient>
void update_short_shard(const OptimizerOptions& options, const at::Tensor& param,
                        const at::Tensor& grad, std::span<at::Tensor> states,
                        std::span<const exec::UpdateSegment> segments,
                        const exec::UpdateArgs& args) {
  constexpr std::size_t kTensors = 1 + kStatesOf<Rule>;
  const auto keys_at = [&](std::int64_t place) {
    std::array<std::uint32_t, kTensors> keys;
    for (std::size_t tensor = 0; tensor < kTensors; ++tensor)
      keys[tensor] = key_of({.stochastic = kStochastic, .key = mix(args.noise, tensor)}, place);
    return keys;
  };
  auto* const params = stored<std::uint16_t, c10::BFloat16>(param);
  const auto* const grads = stored<StoredGradient, Gradient>(grad);
  for (const exec::UpdateSegment& segment : segments) {
    const auto f = Rule::template factors<float>(options, args, segment);
    at::parallel_for(segment.begin, segment.end, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin, part = 0; i < end; i += part) {
        const std::int64_t place = segment.first + (i - segment.begin);
        const std::int64_t column = place % kPlacesOfKey;
        part = std::min(end - i, kPlacesOfKey - column);
        [&]<std::size_t... S>(std::index_sequence<S...>) {
          step_short<Rule, kStochastic>(f, keys_at(place), static_cast<std::uint32_t>(column), part,
                                        params + i, grads + i,
                                        stored<std::uint16_t, c10::BFloat16>(states[S]) + i...);
        }
        (std::make_index_sequence<kStatesOf<Rule>>());
      }
    });
  }
}

}  // namespace trireme::optim
