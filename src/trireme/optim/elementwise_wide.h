// Updates of Elementwise on the CPU whose masters and states have one wide type.
#pragma once

#include <ATen/Parallel.h>

#include "trireme/base/simd.h"
#include "trireme/optim/elementwise.h"

namespace trireme::optim {

inline constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread of their own

template <typename Rule, typename T, typename Gradient, typename... State>
TRIREME_SIMD_CLONES void step_wide(const typename Rule::template Factors<T>& f, std::int64_t count,
                                   T* __restrict param, const Gradient* __restrict grad,
                                   State* __restrict... state) {
  for (std::int64_t i = 0; i < count; ++i) {
    T states[] = {state[i]...};
    Rule::step(f, param[i], static_cast<T>(grad[i]), states);
    const T* stepped = states;
    ((state[i] = *stepped++), ...);
  }
}

template <typename Rule, typename T, typename Gradient>
void update_wide_shard(const OptimizerOptions& options, const at::Tensor& param,
                       const at::Tensor& grad, std::span<at::Tensor> states,
                       std::span<const exec::UpdateSegment> segments,
                       const exec::UpdateArgs& args) {
  for (std::size_t i = 0; i < segments.size();) {
    // Where a parameter is cut across its rows, they are segments each.
    exec::UpdateSegment run = segments[i];
    for (++i; i < segments.size() && segments[i].begin == run.end &&
              segments[i].decay == run.decay && segments[i].lr == run.lr;
         ++i)
      run.end = segments[i].end;
    const auto f = Rule::template factors<T>(options, args, run);
    at::parallel_for(run.begin, run.end, kGrain, [&](std::int64_t begin, std::int64_t end) {
      [&]<std::size_t... S>(std::index_sequence<S...>) {
        step_wide<Rule>(f, end - begin, param.data_ptr<T>() + begin,
                        grad.data_ptr<Gradient>() + begin,
                        states[S].template data_ptr<T>() + begin...);
      }
      (std::make_index_sequence<kStatesOf<Rule>>());
    });
  }
}

}  // namespace trireme::optim
