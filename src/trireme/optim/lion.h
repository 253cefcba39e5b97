// Lion (Chen et al. 2023).
#pragma once

#include "trireme/base/simd.h"
#include "trireme/optim/elementwise.h"

namespace trireme::optim {

struct WideSegments;

// With g the scaled gradient and "exp_avg" m:
//   p -= lr * weight_decay * p                       (before; weight_decay and lr times the segment's factors)
//   p -= lr * sign(b1 m + (1 - b1) g),  m = b2 m + (1 - b2) g
struct LionRule {
  static constexpr std::string_view kName = "Lion";
  static constexpr ElementState kStates[] = {{"exp_avg", Moment::kFirst}};

  template <typename T>
  struct Factors {
    T grad_scale, keep, beta1, new1, beta2, new2, rate;
  };

  template <typename T>
  static Factors<T> factors(const OptimizerOptions& options, const exec::UpdateArgs& args,
                            const exec::UpdateSegment& segment) {
    const double lr = args.lr * segment.lr;
    const auto [beta1, beta2] = options.betas;
    return {.grad_scale = static_cast<T>(args.grad_scale),
            .keep = static_cast<T>(1 - lr * weight_decay(options, args, segment.decay)),
            .beta1 = static_cast<T>(beta1),
            .new1 = static_cast<T>(1 - beta1),
            .beta2 = static_cast<T>(beta2),
            .new2 = static_cast<T>(1 - beta2),
            .rate = static_cast<T>(lr)};
  }

  template <typename T>
  TRIREME_SIMD_INLINE static void step(const Factors<T>& f, T& param, T grad, T (&states)[1]) {
    const T g = grad * f.grad_scale, u = f.beta1 * states[0] + f.new1 * g;
    const T sign = static_cast<T>(u > 0) - static_cast<T>(u < 0);
    param = param * f.keep - f.rate * sign;
    states[0] = f.beta2 * states[0] + f.new2 * g;
  }

  static void by_operators(const OptimizerOptions& options, const exec::UpdateArgs& args,
                           const WideSegments& part);
};

using Lion = Elementwise<LionRule>;
extern template class Elementwise<LionRule>;

}  // namespace trireme::optim
