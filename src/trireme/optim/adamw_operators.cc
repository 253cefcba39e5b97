#include "trireme/optim/adamw_operators.h"

#include <ATen/TensorOperators.h>
#include <torch/version.h>

#include <cmath>

// Since 2.4 on the CPU as well, where it can be tested.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
#define TRIREME_FUSED_ADAMW 1
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#endif

namespace trireme::optim {
namespace {

using Tensors = std::vector<at::Tensor>;

// One list entry a segment, for all segments that decay alike.
struct Part {
  Tensors params, grads, first, second;
};

void step(const AdamWOptions& options, const exec::UpdateArgs& args, double weight_decay,
          const Part& part) {
  if (part.params.empty()) return;
  const auto [beta1, beta2] = options.betas;
  const double t = static_cast<double>(args.step);
#ifdef TRIREME_FUSED_ADAMW
  const Tensors steps(part.params.size(),
                      at::full({}, t, part.params[0].options().dtype(at::kFloat)));
  at::_fused_adamw_(part.params, part.grads, part.first, part.second, {}, steps, args.lr, beta1,
                    beta2, weight_decay, options.eps, /*amsgrad=*/false, /*maximize=*/false);
#else
  const double root_correction = std::sqrt(1 - std::pow(beta2, t));
  for (std::size_t i = 0; i < part.params.size(); ++i) {
    const at::Tensor &p = part.params[i], &g = part.grads[i], &m = part.first[i],
                     &v = part.second[i];
    m.mul_(beta1).add_(g, 1 - beta1);
    v.mul_(beta2).addcmul_(g, g, 1 - beta2);
    p.mul_(1 - args.lr * weight_decay)
        .addcdiv_(m, v.sqrt().div_(root_correction).add_(options.eps),
                  -args.lr / (1 - std::pow(beta1, t)));
  }
#endif
}

}  // namespace

void update_by_operators(const AdamWOptions& options, const at::Tensor& param,
                         const at::Tensor& grad, std::span<at::Tensor> states,
                         std::span<const exec::UpdateSegment> segments,
                         const exec::UpdateArgs& args) {
  const at::Tensor scaled = args.grad_scale == 1 ? grad : grad * args.grad_scale;
  Part decaying, rest;
  for (const exec::UpdateSegment& segment : segments) {
    if (segment.begin == segment.end) continue;
    const auto of_segment = [&](const at::Tensor& whole) {
      return whole.narrow(0, segment.begin, segment.end - segment.begin);
    };
    Part& part = segment.decay ? decaying : rest;
    part.params.push_back(of_segment(param));
    part.grads.push_back(of_segment(scaled));
    part.first.push_back(of_segment(states[0]));
    part.second.push_back(of_segment(states[1]));
  }
  step(options, args, options.weight_decay, decaying);
  step(options, args, 0, rest);
}

}  // namespace trireme::optim
