// Suffixes: t row, h head, w width of a head, c convolved channel.
#include "trireme/models/mamba.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/log.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>

#include <cmath>

#include "trireme/arch/hnet.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::models {
namespace {

using arch::Mamba;

// Each channel's last rows, weighted; what lies before the sequence is 0. taps: [channels, 1, taps].
at::Tensor convolved(const at::Tensor& x_tc, const at::Tensor& taps, const at::Tensor& bias,
                     const Sequences& sequences) {
  at::Tensor sum_tc = bias.expand_as(x_tc);
  for (std::int64_t tap = 0; tap < Mamba::kTaps; ++tap) {
    const std::int64_t back = Mamba::kTaps - 1 - tap;
    const std::int64_t shift = std::min(back, x_tc.size(0));
    const at::Tensor earlier_tc =
        at::constant_pad_nd(x_tc.narrow(0, 0, x_tc.size(0) - shift), {0, 0, shift, 0});
    const at::Tensor there = (sequences.position >= back).to(x_tc.scalar_type()).unsqueeze(1);
    sum_tc = sum_tc + earlier_tc * there * taps.select(2, tap).squeeze(1);
  }
  return sum_tc;
}

}  // namespace

at::Tensor mamba(const at::Tensor& u, const MambaParams& params, const Sequences& sequences,
                 double norm_eps, const ops::WeightGradientsPtr& gradients) {
  const at::ScalarType type = u.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto exact = [&](const at::Tensor& tensor) { return tensor.to(type); };
  const Mamba sizes(u.size(1));
  const at::Tensor projected = exact(ops::linear(u, params.in, {}, gradients));
  const auto parts = projected.split_with_sizes({sizes.inner, sizes.convolved(), sizes.heads}, 1);
  const at::Tensor active_tc =
      at::silu(convolved(parts[1], exact(params.taps), exact(params.taps_bias), sequences));
  const auto mixed = active_tc.split_with_sizes({sizes.inner, Mamba::kState, Mamba::kState}, 1);
  const at::Tensor x_thw = mixed[0].reshape({u.size(0), sizes.heads, -1});
  const at::Tensor step_th = at::softplus(parts[2] + exact(params.step_bias));
  const at::Tensor y_thw = scan({.log_decay = -exact(params.log_rate).exp() * step_th,
                                 .x = x_thw * step_th.unsqueeze(2),
                                 .in = mixed[1],
                                 .out = mixed[2]},
                                sequences, Mamba::kPiece) +
                           exact(params.skip).unsqueeze(1) * x_thw;
  const at::Tensor gated = y_thw.reshape({u.size(0), sizes.inner}) * at::silu(parts[0]);
  return ops::linear(
      ops::rms_norm(gated.to(u.scalar_type()).contiguous(), params.norm, norm_eps, gradients),
      params.out, {}, gradients);
}

at::Tensor initial_step_bias(std::int64_t heads) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor steps = at::linspace(std::log(1e-3), std::log(0.1), heads, options).exp();
  return steps + at::log(-at::expm1(-steps));  // the inverse of softplus
}

at::Tensor initial_log_rate(std::int64_t heads) {
  return at::linspace(1, 16, heads, at::TensorOptions().dtype(at::kDouble)).log();
}

}  // namespace trireme::models
