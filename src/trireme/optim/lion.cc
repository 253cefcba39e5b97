#include "trireme/optim/lion.h"

#include "trireme/optim/elementwise_loops.h"
#include "trireme/optim/elementwise_operators.h"
#include "trireme/optim/make_optimizer.h"

namespace trireme::optim {

void LionRule::by_operators(const OptimizerOptions& options, const exec::UpdateArgs& args,
                            const WideSegments& part) {
  const double lr = args.lr * part.lr, decay = weight_decay(options, args, part.decay);
  const auto [beta1, beta2] = options.betas;
  for (std::size_t i = 0; i < part.params.size(); ++i) {
    const at::Tensor &g = part.grads[i], &m = part.states[0][i];
    part.params[i].mul_(1 - lr * decay).sub_((m * beta1).add_(g, 1 - beta1).sign_(), lr);
    m.mul_(beta2).add_(g, 1 - beta2);
  }
}

template class Elementwise<LionRule>;

std::unique_ptr<exec::Optimizer> make_lion(const OptimizerOptions& options) {
  return std::make_unique<Lion>(options);
}

template void update_by_operators<LionRule>(const OptimizerOptions&, const at::Tensor&,
                                            const at::Tensor&, std::span<at::Tensor>,
                                            std::span<const exec::UpdateSegment>,
                                            const exec::UpdateArgs&);

}  // namespace trireme::optim
