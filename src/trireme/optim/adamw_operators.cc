#include "trireme/optim/adamw_operators.h"

#include <ATen/TensorOperators.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>

#include "trireme/base/hash.h"
#include "trireme/optim/adamw_step.h"
#include "trireme/optim/quantise.h"
#include "trireme/optim/rounding.h"

// Since 2.4 on the CPU as well, where it can be tested.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
#define TRIREME_FUSED_ADAMW 1
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#endif

namespace trireme::optim {
namespace {

using Tensors = std::vector<at::Tensor>;

// One list entry a segment, for all segments with one decay and one learning rate.
struct Part {
  double decay = 0, lr = 1;
  Tensors params, grads, first, second;
};

void step(const AdamWOptions& options, const exec::UpdateArgs& args, const Part& part) {
  const double lr = args.lr * part.lr, decay = weight_decay(options, args, part.decay);
  const auto [beta1, beta2] = options.betas;
  const double t = static_cast<double>(args.step);
#ifdef TRIREME_FUSED_ADAMW
  const Tensors steps(part.params.size(),
                      at::full({}, t, part.params[0].options().dtype(at::kFloat)));
  at::_fused_adamw_(part.params, part.grads, part.first, part.second, {}, steps, lr, beta1, beta2,
                    decay, options.eps, /*amsgrad=*/false, /*maximize=*/false);
#else
  const double root_correction = std::sqrt(1 - std::pow(beta2, t));
  for (std::size_t i = 0; i < part.params.size(); ++i) {
    const at::Tensor &p = part.params[i], &g = part.grads[i], &m = part.first[i],
                     &v = part.second[i];
    m.mul_(beta1).add_(g, 1 - beta1);
    v.mul_(beta2).addcmul_(g, g, 1 - beta2);
    p.mul_(1 - lr * decay)
        .addcdiv_(m, v.sqrt().div_(root_correction).add_(options.eps),
                  -lr / (1 - std::pow(beta1, t)));
  }
#endif
}

// All of one type.
void update_wide(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                 std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                 const exec::UpdateArgs& args) {
  const at::Tensor scaled = args.grad_scale == 1 ? grad : grad * args.grad_scale;
  std::vector<Part> parts;
  for (const exec::UpdateSegment& segment : segments) {
    if (segment.begin == segment.end) continue;
    const auto of_segment = [&](const at::Tensor& whole) {
      return whole.narrow(0, segment.begin, segment.end - segment.begin);
    };
    auto found = std::ranges::find_if(
        parts, [&](const Part& one) { return one.decay == segment.decay && one.lr == segment.lr; });
    if (found == parts.end())
      found = parts.insert(parts.end(), {.decay = segment.decay, .lr = segment.lr});
    Part& part = *found;
    part.params.push_back(of_segment(param));
    part.grads.push_back(of_segment(scaled));
    part.first.push_back(of_segment(states[0]));
    part.second.push_back(of_segment(states[1]));
  }
  for (const Part& part : parts) step(options, args, part);
}

// Moments in fp32, from their codes or from bf16.
Tensors wide_states(const AdamWOptions& options, std::span<at::Tensor> states, std::int64_t block) {
  if (!options.int8_states) return {states[0].to(at::kFloat), states[1].to(at::kFloat)};
  return {dequantised(Moment::kFirst, {states[0], states[1]}, block),
          dequantised(Moment::kSecond, {states[2], states[3]}, block)};
}

// The part of a segment that the update segments cover.
void store(const Rounding& rounding, std::span<const exec::UpdateSegment> segments,
           const at::Tensor& from, const at::Tensor& to) {
  if (to.scalar_type() == at::kFloat) {
    to.copy_(from);
    return;
  }
  for (const exec::UpdateSegment& segment : segments) {
    const std::int64_t count = segment.end - segment.begin;
    to.narrow(0, segment.begin, count)
        .copy_(rounded_to_bf16(rounding, segment.first, from.narrow(0, segment.begin, count)));
  }
}

// What is in no segment is padding: its moments are 0, whatever its codes say.
void clear_padding(const at::Tensor& moment, std::span<const exec::UpdateSegment> segments) {
  std::int64_t end = 0;
  for (const exec::UpdateSegment& segment : segments) {
    moment.narrow(0, end, segment.begin - end).zero_();
    end = segment.end;
  }
  moment.narrow(0, end, moment.numel() - end).zero_();
}

void update_piece(const AdamWOptions& options, const at::Tensor& param, const at::Tensor& grad,
                  std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                  const exec::UpdateArgs& args) {
  const at::Tensor wide = param.to(at::kFloat);
  Tensors moments = wide_states(options, states, args.state_block);
  update_wide(options, wide, grad.to(at::kFloat), moments, segments, args);
  store({options.stochastic, mix(args.noise, 0)}, segments, wide, param);
  if (!options.int8_states) {
    store({options.stochastic, mix(args.noise, 1)}, segments, moments[0], states[0]);
    store({options.stochastic, mix(args.noise, 2)}, segments, moments[1], states[1]);
    return;
  }
  for (const Moment moment : {Moment::kFirst, Moment::kSecond}) {
    const auto index = static_cast<std::size_t>(moment);
    clear_padding(moments[index], segments);
    const Quantised stored = quantised(moment, moments[index], args.state_block);
    states[2 * index].copy_(stored.codes);
    states[2 * index + 1].copy_(stored.scales);
  }
}

}  // namespace

void update_by_operators(const AdamWOptions& options, const at::Tensor& param,
                         const at::Tensor& grad, std::span<at::Tensor> states,
                         std::span<const exec::UpdateSegment> segments,
                         const exec::UpdateArgs& args) {
  const at::ScalarType type = param.scalar_type();
  if (!options.int8_states && grad.scalar_type() == type && type != at::kBFloat16)
    return update_wide(options, param, grad, states, segments, args);
  constexpr std::int64_t kPiece = 1 << 24;
  for (std::int64_t begin = 0; begin < param.numel(); begin += kPiece) {
    const std::int64_t count = std::min(kPiece, param.numel() - begin);
    Tensors pieces;
    for (std::size_t s = 0; s < states.size(); ++s) {
      const std::int64_t block = options.int8_states && s % 2 == 1 ? args.state_block : 1;
      pieces.push_back(states[s].narrow(0, begin / block, (count + block - 1) / block));
    }
    std::vector<exec::UpdateSegment> inside;
    for (const exec::UpdateSegment& segment : segments) {
      const std::int64_t from = std::max(begin, segment.begin);
      const std::int64_t to = std::min(begin + count, segment.end);
      if (from < to)
        inside.push_back({.begin = from - begin,
                          .end = to - begin,
                          .decay = segment.decay,
                          .first = segment.first + (from - segment.begin),
                          .lr = segment.lr});
    }
    update_piece(options, param.narrow(0, begin, count), grad.narrow(0, begin, count), pieces,
                 inside, args);
  }
}

}  // namespace trireme::optim
