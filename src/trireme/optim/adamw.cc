#include "trireme/optim/adamw.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/simd.h"
#include "trireme/exec/flat.h"
#include "trireme/optim/adamw_operators.h"

namespace trireme::optim {
namespace {

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
          .keep = static_cast<T>(decay ? 1 - args.lr * options.weight_decay : 1.0),
          .beta1 = static_cast<T>(beta1),
          .new1 = static_cast<T>(1 - beta1),
          .beta2 = static_cast<T>(beta2),
          .new2 = static_cast<T>(1 - beta2),
          .rate = static_cast<T>(args.lr / (1 - std::pow(beta1, t))),
          .root_correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, t))),
          .eps = static_cast<T>(options.eps)};
}

// IEEE operations only, no contraction: vector bodies and scalar tails round alike.
template <typename T>
TRIREME_SIMD_CLONES void step(const Factors<T>& f, T* __restrict param, const T* __restrict grad,
                              T* __restrict first, T* __restrict second, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = grad[i] * f.grad_scale;
    const T m = f.beta1 * first[i] + f.new1 * g;
    const T v = f.beta2 * second[i] + f.new2 * (g * g);
    first[i] = m;
    second[i] = v;
    param[i] = param[i] * f.keep - f.rate * (m / (std::sqrt(v) / f.root_correction + f.eps));
  }
}

template <typename T>
void update_segment(const Factors<T>& f, const exec::UpdateSegment& segment,
                    const at::Tensor& param, const at::Tensor& grad, std::span<at::Tensor> states) {
  constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread of their own
  at::parallel_for(segment.begin, segment.end, kGrain, [&](std::int64_t begin, std::int64_t end) {
    step(f, param.data_ptr<T>() + begin, grad.data_ptr<T>() + begin,
         states[0].data_ptr<T>() + begin, states[1].data_ptr<T>() + begin, end - begin);
  });
}

}  // namespace

void AdamW::update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor> states,
                   std::span<const exec::UpdateSegment> segments, const exec::UpdateArgs& args) {
  TRIREME_CHECK(args.step >= 1 && states.size() == 2, "AdamW: update {} with {} states", args.step,
                states.size());
  const at::ScalarType type = param.scalar_type();
  TRIREME_CHECK((type == at::kFloat || type == at::kDouble) && grad.scalar_type() == type &&
                    states[0].scalar_type() == type && states[1].scalar_type() == type,
                "AdamW: master weights, gradients and states need one type, fp32 or fp64");
  TRIREME_CHECK(param.is_contiguous() && grad.is_contiguous(), "AdamW: shards are contiguous");
  if (!exec::on_host(param.device()))
    return update_by_operators(options_, param, grad, states, segments, args);
  for (const exec::UpdateSegment& segment : segments) {
    if (type == at::kDouble)
      update_segment(factors<double>(options_, args, segment.decay), segment, param, grad, states);
    else
      update_segment(factors<float>(options_, args, segment.decay), segment, param, grad, states);
  }
}

}  // namespace trireme::optim
