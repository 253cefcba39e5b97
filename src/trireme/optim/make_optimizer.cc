#include "trireme/optim/make_optimizer.h"

#include "trireme/base/error.h"
#include "trireme/config/optimizers.h"

namespace trireme::optim {

std::unique_ptr<exec::Optimizer> make_optimizer(config::Optimizer name,
                                                const OptimizerOptions& options) {
  using Make = std::unique_ptr<exec::Optimizer> (*)(const OptimizerOptions&);
#define OPTIMIZER(name, key, states) make_##key,
  constexpr Make kMakes[] = {TRIREME_OPTIMIZERS(OPTIMIZER)};
#undef OPTIMIZER
  std::unique_ptr<exec::Optimizer> made = kMakes[static_cast<int>(name)](options);
  const std::size_t tensors = options.int8_states ? 2 : 1;  // 8-bit states have scales
  TRIREME_CHECK(made->states().size() == tensors * config::info(name).states,
                "{}: {} tensors of state, {} in config", config::info(name).key,
                made->states().size(), config::info(name).states);
  return made;
}

std::unique_ptr<exec::Optimizer> make_optimizer(const config::Job& job) {
  return make_optimizer(job.optim.name,
                        {.betas = job.optim.betas,
                         .eps = job.optim.eps,
                         .stochastic = job.precision.master == DType::kBF16,
                         .int8_states = job.optim.states == config::OptimizerStates::kInt8});
}

}  // namespace trireme::optim
