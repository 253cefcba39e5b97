// AdamW's arithmetic on the CPU.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <cstdint>
#include <span>

#include "trireme/base/simd.h"
#include "trireme/optim/adamw.h"

namespace trireme::optim {

// Of parameters that multiply it by `factor`.
inline double weight_decay(const AdamWOptions& options, const exec::UpdateArgs& args,
                           double factor) {
  return args.weight_decay.value_or(options.weight_decay) * factor;
}

template <typename T>
struct Factors {
  T grad_scale, keep, beta1, new1, beta2, new2, rate, root_correction, eps;
};

// Every factor is computed in fp64 and rounded once.
template <typename T>
Factors<T> factors(const AdamWOptions& options, const exec::UpdateArgs& args,
                   const exec::UpdateSegment& segment) {
  const double t = static_cast<double>(args.step), lr = args.lr * segment.lr;
  const auto [beta1, beta2] = options.betas;
  return {.grad_scale = static_cast<T>(args.grad_scale),
          .keep = static_cast<T>(1 - lr * weight_decay(options, args, segment.decay)),
          .beta1 = static_cast<T>(beta1),
          .new1 = static_cast<T>(1 - beta1),
          .beta2 = static_cast<T>(beta2),
          .new2 = static_cast<T>(1 - beta2),
          .rate = static_cast<T>(lr / (1 - std::pow(beta1, t))),
          .root_correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, t))),
          .eps = static_cast<T>(options.eps)};
}

// One element. IEEE operations only, no contraction: vector bodies and scalar tails have the same roundings.
template <typename T>
TRIREME_SIMD_INLINE void step_element(const Factors<T>& f, T& param, T grad, T& first, T& second) {
  const T g = grad * f.grad_scale;
  first = f.beta1 * first + f.new1 * g;
  second = f.beta2 * second + f.new2 * (g * g);
  param = param * f.keep - f.rate * (first / (std::sqrt(second) / f.root_correction + f.eps));
}

template <typename T, typename Gradient>
TRIREME_SIMD_INLINE void step_inline(const Factors<T>& f, T* __restrict param,
                                     const Gradient* __restrict grad, T* __restrict first,
                                     T* __restrict second, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    step_element(f, param[i], static_cast<T>(grad[i]), first[i], second[i]);
}

// A shard whose masters and moments are in bf16.
void update_short(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                  std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                  const exec::UpdateArgs& args);

// A shard whose moments are in 8 bits.
void update_coded(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                  std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                  const exec::UpdateArgs& args);

}  // namespace trireme::optim
