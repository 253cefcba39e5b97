#include <ATen/Parallel.h>

#include <algorithm>

#include "trireme/base/hash.h"
#include "trireme/optim/adamw_step.h"
#include "trireme/optim/rounding_bits.h"

namespace trireme::optim {
namespace {

TRIREME_SIMD_INLINE float wide_gradient(float x) { return x; }
TRIREME_SIMD_INLINE float wide_gradient(std::uint16_t x) { return widened(x); }

struct Keys {
  std::uint32_t param, first, second;
};

// Elements whose noise has the same keys, the first of them at `column`.
template <typename Gradient, bool kStochastic>
TRIREME_SIMD_CLONES void step_short(const Factors<float>& f, const Keys& keys, std::uint32_t column,
                                    std::uint16_t* __restrict param,
                                    const Gradient* __restrict grad,
                                    std::uint16_t* __restrict first,
                                    std::uint16_t* __restrict second, std::int64_t count) {
  const auto rounded =
      [](float x, std::uint32_t key, std::uint32_t place) __attribute__((always_inline)) {
    return kStochastic ? rounded_by_noise(x, key, place) : rounded_to_nearest(x);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    float p = widened(param[i]), m = widened(first[i]), v = widened(second[i]);
    step_element(f, p, wide_gradient(grad[i]), m, v);
    const std::uint32_t place = column + static_cast<std::uint32_t>(i);
    param[i] = rounded(p, keys.param, place);
    first[i] = rounded(m, keys.first, place);
    second[i] = rounded(v, keys.second, place);
  }
}

template <typename Stored, typename T>
Stored* stored(const at::Tensor& tensor) {
  return reinterpret_cast<Stored*>(tensor.data_ptr<T>());
}

template <typename Gradient, typename StoredGradient, bool kStochastic>
void update_all(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                const exec::UpdateArgs& args) {
  const auto key = [&](std::uint64_t tensor, std::int64_t place) {
    return key_of({.stochastic = kStochastic, .key = mix(args.noise, tensor)}, place);
  };
  auto* const params = stored<std::uint16_t, c10::BFloat16>(param);
  const auto* const grads = stored<StoredGradient, Gradient>(grad);
  auto* const first = stored<std::uint16_t, c10::BFloat16>(states[0]);
  auto* const second = stored<std::uint16_t, c10::BFloat16>(states[1]);
  constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread of their own
  for (const exec::UpdateSegment& segment : segments) {
    const Factors<float> own = factors<float>(options, args, segment);
    at::parallel_for(segment.begin, segment.end, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin, part = 0; i < end; i += part) {
        const std::int64_t place = segment.first + (i - segment.begin);
        const std::int64_t column = place % kPlacesOfKey;
        part = std::min(end - i, kPlacesOfKey - column);
        step_short<StoredGradient, kStochastic>(
            own, {.param = key(0, place), .first = key(1, place), .second = key(2, place)},
            static_cast<std::uint32_t>(column), params + i, grads + i, first + i, second + i, part);
      }
    });
  }
}

template <typename Gradient, typename StoredGradient, typename... Args>
void choose_rounding(const AdamWOptions& options, const Args&... args) {
  if (options.stochastic)
    update_all<Gradient, StoredGradient, true>(options, args...);
  else
    update_all<Gradient, StoredGradient, false>(options, args...);
}

}  // namespace

void update_short(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                  std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                  const exec::UpdateArgs& args) {
  if (grad.scalar_type() == at::kFloat)
    choose_rounding<float, float>(options, param, grad, states, segments, args);
  else
    choose_rounding<c10::BFloat16, std::uint16_t>(options, param, grad, states, segments, args);
}

}  // namespace trireme::optim
