// Updates of Elementwise on the CPU whose states are in 8 bits.
#pragma once

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>

#include "trireme/base/hash.h"
#include "trireme/optim/elementwise_wide.h"
#include "trireme/optim/rounding.h"

namespace trireme::optim {

inline constexpr std::int64_t kLargestBlock = 256;

inline void widen(const float* from, float* to, std::int64_t count) {
  std::copy_n(from, count, to);
}
inline void widen(const c10::BFloat16* from, float* to, std::int64_t count) {
  widen_bf16(from, to, count);
}
inline void store(const Rounding&, std::int64_t, const float* from, float* to, std::int64_t count) {
  std::copy_n(from, count, to);
}
inline void store(const Rounding& rounding, std::int64_t place, const float* from,
                  c10::BFloat16* to, std::int64_t count) {
  round_to_bf16(rounding, place, from, to, count);
}

template <typename Rule, typename T, typename Gradient>
void update_coded_shard(const OptimizerOptions& options, const at::Tensor& param,
                        const at::Tensor& grad, std::span<at::Tensor> states,
                        std::span<const exec::UpdateSegment> segments,
                        const exec::UpdateArgs& args) {
  constexpr std::size_t kStates = kStatesOf<Rule>;
  std::vector<typename Rule::template Factors<float>> all;  // parallel to segments
  for (const exec::UpdateSegment& segment : segments)
    all.push_back(Rule::template factors<float>(options, args, segment));
  const Rounding rounding{options.stochastic, mix(args.noise, 0)};
  std::array<std::uint8_t*, kStates> codes;
  std::array<float*, kStates> scales;
  for (std::size_t s = 0; s < kStates; ++s) {
    codes[s] = states[2 * s].data_ptr<std::uint8_t>();
    scales[s] = states[2 * s + 1].data_ptr<float>();
  }
  T* const params = param.data_ptr<T>();
  const Gradient* const grads = grad.data_ptr<Gradient>();
  const std::int64_t size = args.state_block, count = param.numel();
  const auto update_block = [&](std::int64_t block) {
    // What is in no segment is padding: its states are 0, whatever its codes say.
    float p[kLargestBlock], g[kLargestBlock], wide[kStates][kLargestBlock] = {};
    const std::int64_t begin = block * size, end = std::min(begin + size, count);
    auto segment = std::ranges::upper_bound(segments, begin, {}, &exec::UpdateSegment::end);
    for (; segment != segments.end() && segment->begin < end; ++segment) {
      const std::int64_t from = std::max(begin, segment->begin);
      const std::int64_t length = std::min(end, segment->end) - from;
      const std::int64_t place = segment->first + (from - segment->begin);
      for (std::size_t s = 0; s < kStates; ++s)
        dequantise(Rule::kStates[s].moment, codes[s] + from, scales[s][block],
                   wide[s] + (from - begin), length);
      widen(params + from, p, length);
      widen(grads + from, g, length);
      [&]<std::size_t... S>(std::index_sequence<S...>) {
        step_wide<Rule>(all[segment - segments.begin()], length, static_cast<float*>(p),
                        static_cast<const float*>(g), wide[S] + (from - begin)...);
      }
      (std::make_index_sequence<kStates>());
      store(rounding, place, p, params + from, length);
    }
    for (std::size_t s = 0; s < kStates; ++s)
      quantise(Rule::kStates[s].moment, wide[s], end - begin, codes[s] + begin, scales[s][block]);
  };
  at::parallel_for(0, (count + size - 1) / size, std::max<std::int64_t>(1, kGrain / size),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t block = first; block < last; ++block) update_block(block);
                   });
}

}  // namespace trireme::optim
