// Suffixes: t row, h head, w width of a head, c convolved channel.
#include "trireme/families/hnet/blocks_mamba.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>

#include <algorithm>

#include "trireme/families/hnet/model.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::blocks {
namespace {

using model::Mamba;

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

// The same for rows that follow others of their sequence. `before` has the last of those, [taps - 1, channels],
// undefined if there are none, and becomes the last of these.
at::Tensor convolved_on(const at::Tensor& x_tc, const at::Tensor& taps, const at::Tensor& bias,
                        at::Tensor& before) {
  constexpr std::int64_t kBack = Mamba::kTaps - 1;
  const std::int64_t rows = x_tc.size(0);
  const at::Tensor all_tc =
      before.defined() ? at::cat({before, x_tc}) : at::constant_pad_nd(x_tc, {0, 0, kBack, 0});
  at::Tensor sum_tc = bias.expand_as(x_tc);
  for (std::int64_t tap = 0; tap < Mamba::kTaps; ++tap)
    sum_tc = sum_tc + all_tc.narrow(0, tap, rows) * taps.select(2, tap).squeeze(1);
  before = all_tc.narrow(0, rows, kBack).clone();
  return sum_tc;
}

// The sum over tp ranks of what each has a part of, and whose gradient each has a part of.
class SumOverRanks : public torch::autograd::Function<SumOverRanks> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& partial,
                            const ops::TensorParallel* tp) {
    ops::save(context, *tp);
    return ops::sum_partials(partial.clone(), *tp).wait();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const ops::TensorParallel tp = ops::saved_tensor_parallel(context);
    return {ops::sum_partials(gradients[0].clone(), tp).wait(), at::Tensor()};
  }
};

// x / sqrt(mean of squares + eps), over the features of all ranks, of which there are `features`.
at::Tensor normed(const at::Tensor& x, std::int64_t features, double eps,
                  const ops::TensorParallel& tp) {
  const at::Tensor squares = x.square().sum(1, true);
  const at::Tensor all = tp.size() > 1 ? SumOverRanks::apply(squares, &tp) : squares;
  return x * (all / static_cast<double>(features) + eps).rsqrt();
}

}  // namespace

at::Tensor mamba(const ops::Operand& u, const MambaParams& params, const Sequences& sequences,
                 double norm_eps, const ops::TensorParallel& tp,
                 const ops::WeightGradientsPtr& gradients, exec::Past* past) {
  const at::ScalarType type = u.value.scalar_type();
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto exact = [&](const at::Tensor& tensor) { return tensor.to(wide); };
  const std::int64_t rows = u.value.size(-2), all = Mamba(u.value.size(-1)).inner;
  const std::int64_t heads = params.log_rate.size(0), inner = heads * Mamba::kWidth;
  const at::Tensor projected =
      exact(ops::column_linear(u, params.in, {}, tp, gradients).value.reshape({rows, -1}));
  const auto parts = projected.split_with_sizes({inner, inner + 2 * Mamba::kState, heads}, 1);
  if (past != nullptr) past->kept.resize(2);
  const at::Tensor taps = exact(params.taps), taps_bias = exact(params.taps_bias);
  const at::Tensor active_tc =
      at::silu(past != nullptr ? convolved_on(parts[1], taps, taps_bias, past->kept[0])
                               : convolved(parts[1], taps, taps_bias, sequences));
  const auto mixed = active_tc.split_with_sizes({inner, Mamba::kState, Mamba::kState}, 1);
  const at::Tensor x_thw = mixed[0].reshape({rows, heads, Mamba::kWidth});
  const at::Tensor step_th = at::softplus(parts[2] + exact(params.step_bias));
  const at::Tensor y_thw =
      scan({.log_decay = -exact(params.log_rate).exp() * step_th,
            .x = x_thw * step_th.unsqueeze(2),
            .in = mixed[1],
            .out = mixed[2]},
           sequences, Mamba::kPiece, past != nullptr ? &past->kept[1] : nullptr) +
      exact(params.skip).unsqueeze(1) * x_thw;
  const at::Tensor gated = y_thw.reshape({rows, inner}) * at::silu(parts[0]);
  const at::Tensor result = normed(gated, all, norm_eps, tp).to(type) * params.norm;
  return ops::row_linear(result.unsqueeze(0), params.out, {}, tp, gradients)
      .reshape(u.value.sizes());
}

}  // namespace trireme::blocks
