// The update of Elementwise by LibTorch's operators. Included by the source of each rule.
#pragma once

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>

#include "trireme/base/hash.h"
#include "trireme/optim/elementwise.h"
#include "trireme/optim/rounding.h"

namespace trireme::optim {

using Tensors = std::vector<at::Tensor>;

// One list entry a segment, for all segments with one decay and one learning rate. States by their place in the rule.
struct WideSegments {
  double decay = 0, lr = 1;
  Tensors params, grads;
  std::vector<Tensors> states;
};

// All of one type.
template <typename Rule>
void update_wide(const OptimizerOptions& options, const at::Tensor& param, const at::Tensor& grad,
                 std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                 const exec::UpdateArgs& args) {
  const at::Tensor scaled = args.grad_scale == 1 ? grad : grad * args.grad_scale;
  std::vector<WideSegments> parts;
  for (const exec::UpdateSegment& segment : segments) {
    if (segment.begin == segment.end) continue;
    const auto of_segment = [&](const at::Tensor& whole) {
      return whole.narrow(0, segment.begin, segment.end - segment.begin);
    };
    auto found = std::ranges::find_if(parts, [&](const WideSegments& one) {
      return one.decay == segment.decay && one.lr == segment.lr;
    });
    if (found == parts.end())
      found = parts.insert(
          parts.end(),
          {.decay = segment.decay, .lr = segment.lr, .states = {kStatesOf<Rule>, Tensors{}}});
    found->params.push_back(of_segment(param));
    found->grads.push_back(of_segment(scaled));
    for (std::size_t s = 0; s < kStatesOf<Rule>; ++s)
      found->states[s].push_back(of_segment(states[s]));
  }
  for (const WideSegments& part : parts) Rule::by_operators(options, args, part);
}

// The part of a segment that the update segments cover.
inline void store(const Rounding& rounding, std::span<const exec::UpdateSegment> segments,
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

// What is in no segment is padding: its states are 0, whatever its codes say.
inline void clear_padding(const at::Tensor& state, std::span<const exec::UpdateSegment> segments) {
  std::int64_t end = 0;
  for (const exec::UpdateSegment& segment : segments) {
    state.narrow(0, end, segment.begin - end).zero_();
    end = segment.end;
  }
  state.narrow(0, end, state.numel() - end).zero_();
}

template <typename Rule>
void update_piece(const OptimizerOptions& options, const at::Tensor& param, const at::Tensor& grad,
                  std::span<at::Tensor> states, std::span<const exec::UpdateSegment> segments,
                  const exec::UpdateArgs& args) {
  const at::Tensor wide = param.to(at::kFloat);
  Tensors wide_states;
  for (std::size_t s = 0; s < kStatesOf<Rule>; ++s)
    wide_states.push_back(options.int8_states
                              ? dequantised(Rule::kStates[s].moment,
                                            {states[2 * s], states[2 * s + 1]}, args.state_block)
                              : states[s].to(at::kFloat));
  update_wide<Rule>(options, wide, grad.to(at::kFloat), wide_states, segments, args);
  store({options.stochastic, mix(args.noise, 0)}, segments, wide, param);
  for (std::size_t s = 0; s < kStatesOf<Rule>; ++s) {
    if (!options.int8_states) {
      store({options.stochastic, mix(args.noise, s + 1)}, segments, wide_states[s], states[s]);
      continue;
    }
    clear_padding(wide_states[s], segments);
    const Quantised coded = quantised(Rule::kStates[s].moment, wide_states[s], args.state_block);
    states[2 * s].copy_(coded.codes);
    states[2 * s + 1].copy_(coded.scales);
  }
}

template <typename Rule>
void update_by_operators(const OptimizerOptions& options, const at::Tensor& param,
                         const at::Tensor& grad, std::span<at::Tensor> states,
                         std::span<const exec::UpdateSegment> segments,
                         const exec::UpdateArgs& args) {
  const at::ScalarType type = param.scalar_type();
  if (!options.int8_states && grad.scalar_type() == type && type != at::kBFloat16)
    return update_wide<Rule>(options, param, grad, states, segments, args);
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
    update_piece<Rule>(options, param.narrow(0, begin, count), grad.narrow(0, begin, count), pieces,
                       inside, args);
  }
}

}  // namespace trireme::optim
