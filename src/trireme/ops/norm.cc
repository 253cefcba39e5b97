#include "trireme/ops/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/norm.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows whose gradients for gain and bias are added together before chunks are added in order: fixed, so
// that the sum does not depend on threads.
constexpr std::int64_t kChunk = 256;

struct Stats {
  at::Tensor mean;  // undefined: no mean is taken
  at::Tensor scale;
};

template <typename T>
kernels::NormRows<T> norm_rows(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                               const Stats& stats, double eps) {
  using A = kernels::Wide<T>;
  return {.x = elements<T>(x),
          .gain = elements<T>(gain),
          .bias = bias.defined() ? elements<T>(bias) : nullptr,
          .mean = stats.mean.defined() ? elements<A>(stats.mean) : nullptr,
          .scale = elements<A>(stats.scale),
          .width = gain.numel(),
          .eps = eps};
}

at::Tensor norm_forward(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                        const Stats& stats, double eps) {
  at::Tensor y = at::empty_like(x);
  TRIREME_DISPATCH(x.scalar_type(), "norm", [&] {
    const auto rows = norm_rows<scalar_t>(x, gain, bias, stats, eps);
    for_rows(stats.scale.numel(), rows.width, [&](std::int64_t begin, std::int64_t end) {
      kernels::norm(rows, elements<scalar_t>(y), begin, end);
    });
  });
  return y;
}

// Gradients of x, gain and, with a mean, bias.
variable_list norm_backward(const at::Tensor& x, const at::Tensor& gain, const Stats& stats,
                            const at::Tensor& dy) {
  const std::int64_t rows = stats.scale.numel();
  const std::int64_t width = gain.numel();
  const std::int64_t chunks = (rows + kChunk - 1) / kChunk;
  at::Tensor dx = at::empty_like(x);
  at::Tensor sums = at::empty({2, chunks, width}, stats.scale.options());
  TRIREME_DISPATCH(x.scalar_type(), "norm_backward", [&] {
    using A = kernels::Wide<scalar_t>;
    const auto view = norm_rows<scalar_t>(x, gain, {}, stats, 0);
    A* const dgain = elements<A>(sums);
    for_rows(chunks, kChunk * width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk)
        kernels::norm_backward(view, elements<scalar_t>(dy), elements<scalar_t>(dx),
                               dgain + chunk * width, dgain + (chunks + chunk) * width,
                               chunk * kChunk, std::min(rows, (chunk + 1) * kChunk));
    });
    for (std::int64_t chunk = 1; chunk < chunks; ++chunk)
      for (std::int64_t i = 0; i < width; ++i) {
        dgain[i] += dgain[chunk * width + i];
        if (stats.mean.defined()) dgain[chunks * width + i] += dgain[(chunks + chunk) * width + i];
      }
  });
  const auto sum = [&](int which) {
    return sums.select(0, which).select(0, 0).to(gain.scalar_type());
  };
  return {dx, sum(0), stats.mean.defined() ? sum(1) : at::Tensor()};
}

at::Tensor statistic(const at::Tensor& x) {
  return at::empty({x.numel() / x.size(-1)}, x.options().dtype(wide(x.scalar_type())));
}

struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gain,
                            const at::Tensor& bias, double eps) {
    const Stats stats{.mean = statistic(x), .scale = statistic(x)};
    at::Tensor y = norm_forward(x, gain, bias, stats, eps);
    context->save_for_backward({x, gain, stats.mean, stats.scale});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const variable_list saved = context->get_saved_variables();
    variable_list grads = norm_backward(saved[0], saved[1], {.mean = saved[2], .scale = saved[3]},
                                        dy[0].contiguous());
    grads.emplace_back();
    return grads;
  }
};

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gain,
                            double eps) {
    const Stats stats{.mean = {}, .scale = statistic(x)};
    at::Tensor y = norm_forward(x, gain, {}, stats, eps);
    context->save_for_backward({x, gain, stats.scale});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const variable_list saved = context->get_saved_variables();
    // The gradient of eps, which has none, stands where bias would.
    return norm_backward(saved[0], saved[1], {.mean = {}, .scale = saved[2]}, dy[0].contiguous());
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                      double eps) {
  return LayerNorm::apply(x.contiguous(), gain, bias, eps);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  return RmsNorm::apply(x.contiguous(), gain, eps);
}

}  // namespace trireme::ops
