#include "trireme/optim/adamw.h"

#include <torch/version.h>

#include "trireme/optim/elementwise_loops.h"
#include "trireme/optim/elementwise_operators.h"
#include "trireme/optim/make_optimizer.h"

// Since 2.4 on the CPU as well, where it can be tested.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
#define TRIREME_FUSED_ADAMW 1
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#endif

namespace trireme::optim {

void AdamWRule::by_operators(const OptimizerOptions& options, const exec::UpdateArgs& args,
                             const WideSegments& part) {
  const double lr = args.lr * part.lr, decay = weight_decay(options, args, part.decay);
  const auto [beta1, beta2] = options.betas;
  const double t = static_cast<double>(args.step);
#ifdef TRIREME_FUSED_ADAMW
  const Tensors steps(part.params.size(),
                      at::full({}, t, part.params[0].options().dtype(at::kFloat)));
  at::_fused_adamw_(part.params, part.grads, part.states[0], part.states[1], {}, steps, lr, beta1,
                    beta2, decay, options.eps, /*amsgrad=*/false, /*maximize=*/false);
#else
  const double root_correction = std::sqrt(1 - std::pow(beta2, t));
  for (std::size_t i = 0; i < part.params.size(); ++i) {
    const at::Tensor &p = part.params[i], &g = part.grads[i], &m = part.states[0][i],
                     &v = part.states[1][i];
    m.mul_(beta1).add_(g, 1 - beta1);
    v.mul_(beta2).addcmul_(g, g, 1 - beta2);
    p.mul_(1 - lr * decay)
        .addcdiv_(m, v.sqrt().div_(root_correction).add_(options.eps),
                  -lr / (1 - std::pow(beta1, t)));
  }
#endif
}

template class Elementwise<AdamWRule>;

std::unique_ptr<exec::Optimizer> make_adamw(const OptimizerOptions& options) {
  return std::make_unique<AdamW>(options);
}

template void update_by_operators<AdamWRule>(const OptimizerOptions&, const at::Tensor&,
                                             const at::Tensor&, std::span<at::Tensor>,
                                             std::span<const exec::UpdateSegment>,
                                             const exec::UpdateArgs&);

}  // namespace trireme::optim
