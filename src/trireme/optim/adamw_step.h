// AdamW's arithmetic on the CPU.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <cstdint>
#include <span>

#include "trireme/base/simd.h"
#include "trireme/optim/adamw.h"

namespace trireme::optim {

inline double weight_decay(const AdamWOptions& options, const exec::UpdateArgs& args) {
  return args.weight_decay.value_or(options.weight_decay);
}

template <typename T>
struct Factors {
  T grad_scale, keep, beta1, new1, beta2, new2, rate, root_correction, eps;
};

// Every factor is computed in fp64 and rounded once.
template <typename T>
Factors<T> factors(const AdamWOptions& options, const exec::UpdateArgs& args, bool decay) {
  const double t = static_cast<double>(args.step);
  const auto [beta1, beta2] = options.betas;
  return {.grad_scale = static_cast<T>(args.grad_scale),
          .keep = static_cast<T>(decay ? 1 - args.lr * weight_decay(options, args) : 1.0),
          .beta1 = static_cast<T>(beta1),
          .new1 = static_cast<T>(1 - beta1),
          .beta2 = static_cast<T>(beta2),
          .new2 = static_cast<T>(1 - beta2),
          .rate = static_cast<T>(args.lr / (1 - std::pow(beta1, t))),
          .root_correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, t))),
          .eps = static_cast<T>(options.eps)};
}

// IEEE operations only, no contraction: vector bodies and scalar tails round alike.
template <typename T, typename Gradient>
TRIREME_SIMD_INLINE void step_inline(const Factors<T>& f, T* __restrict param,
                                     const Gradient* __restrict grad, T* __restrict first,
                                     T* __restrict second, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = static_cast<T>(grad[i]) * f.grad_scale;
    const T m = f.beta1 * first[i] + f.new1 * g;
    const T v = f.beta2 * second[i] + f.new2 * (g * g);
    first[i] = m;
    second[i] = v;
    param[i] = param[i] * f.keep - f.rate * (m / (std::sqrt(v) / f.root_correction + f.eps));
  }
}

// A shard whose masters or states are narrower than the arithmetic.
void update_narrow(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                   std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                   const exec::UpdateArgs& args);

}  // namespace trireme::optim
