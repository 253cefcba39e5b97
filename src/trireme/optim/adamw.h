// AdamW (Loshchilov & Hutter 2019).
#pragma once

#include <cmath>

#include "trireme/base/simd.h"
#include "trireme/optim/elementwise.h"

namespace trireme::optim {

struct WideSegments;

// With g the scaled gradient and t the update's number, from 1:
//   p -= lr * weight_decay * p                       (before; weight_decay and lr times the segment's factors)
//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
// "exp_avg" is m, "exp_avg_sq" v.
struct AdamWRule {
  static constexpr std::string_view kName = "AdamW";
  static constexpr ElementState kStates[] = {{"exp_avg", Moment::kFirst},
                                             {"exp_avg_sq", Moment::kSecond}};

  template <typename T>
  struct Factors {
    T grad_scale, keep, beta1, new1, beta2, new2, rate, root_correction, eps;
  };

  template <typename T>
  static Factors<T> factors(const OptimizerOptions& options, const exec::UpdateArgs& args,
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

  template <typename T>
  TRIREME_SIMD_INLINE static void step(const Factors<T>& f, T& param, T grad, T (&states)[2]) {
    const T g = grad * f.grad_scale;
    states[0] = f.beta1 * states[0] + f.new1 * g;
    states[1] = f.beta2 * states[1] + f.new2 * (g * g);
    param =
        param * f.keep - f.rate * (states[0] / (std::sqrt(states[1]) / f.root_correction + f.eps));
  }

  // Their fused operator where this version of LibTorch has it.
  static void by_operators(const OptimizerOptions& options, const exec::UpdateArgs& args,
                           const WideSegments& part);
};

using AdamW = Elementwise<AdamWRule>;
extern template class Elementwise<AdamWRule>;

}  // namespace trireme::optim
