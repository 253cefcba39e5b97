#include "trireme/ops/aten/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "trireme/ops/dispatch.h"

namespace trireme::ops::aten {
namespace {

// Of an RMS norm.
at::Tensor factors(const at::Tensor& gain, double offset) {
  return offset == 0 ? gain : widened(gain) + offset;
}

}  // namespace

Normed norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps,
            double offset) {
  if (bias.defined()) {
    const auto [normed, mean, scale] = at::native_layer_norm(x, gain.sizes(), gain, bias, eps);
    return {.normed = normed, .mean = mean, .scale = scale};
  }
  const at::Tensor x_wide = widened(x);
  const at::Tensor scale = x_wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return {.normed = (x_wide * scale).mul_(factors(gain, offset)).to(gain.scalar_type()),
          .mean = {},
          .scale = scale};
}

NormGradients norm_backward(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& scale, const at::Tensor& dy,
                            double offset) {
  if (bias.defined()) {
    const auto [dx, dgain, dbias] = at::native_layer_norm_backward(dy, x, gain.sizes(), mean, scale,
                                                                   gain, bias, {true, true, true});
    return {.x = dx, .gain = dgain, .bias = dbias};
  }
  const at::Tensor unit = widened(x) * scale, dy_wide = widened(dy);
  const at::Tensor dunit = dy_wide * factors(gain, offset);
  const at::Tensor share = (dunit * unit).mean(-1, /*keepdim=*/true);
  return {.x = (dunit - unit * share).mul_(scale).to(x.scalar_type()),
          .gain = (dy_wide * unit).reshape({-1, gain.numel()}).sum(0),
          .bias = {}};
}

}  // namespace trireme::ops::aten
