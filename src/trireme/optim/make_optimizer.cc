#include "trireme/optim/make_optimizer.h"

#include <array>

#include "trireme/base/error.h"
#include "trireme/config/optimizers.h"

namespace trireme::optim {

std::unique_ptr<exec::Optimizer> make_optimizer(config::Optimizer name,
                                                const OptimizerOptions& options) {
  using Make = std::unique_ptr<exec::Optimizer> (*)(const OptimizerOptions&);
#define OPTIMIZER(name, key, states, grain) make_##key,
  constexpr Make kMakes[] = {TRIREME_OPTIMIZERS(OPTIMIZER)};
#undef OPTIMIZER
  std::unique_ptr<exec::Optimizer> made = kMakes[static_cast<int>(name)](options);
  const std::size_t tensors = options.int8_states ? 2 : 1;  // 8-bit states have scales
  TRIREME_CHECK(made->states().size() == tensors * config::info(name).states,
                "{}: {} tensors of state, {} in config", config::info(name).key,
                made->states().size(), config::info(name).states);
  return made;
}

namespace {

// One of each optimizer that a unit of the job may have.
class Optimizers final : public exec::Optimizer {
 public:
  explicit Optimizers(const OptimizerOptions& options) : options_(options) {}

  exec::Optimizer& of(const model::UnitSpec& unit) override {
    std::unique_ptr<exec::Optimizer>& one = all_[static_cast<std::size_t>(unit.optimizer)];
    if (one == nullptr) one = make_optimizer(unit.optimizer, options_);
    return *one;
  }
  const std::vector<exec::StateSpec>& states() const override { return none_; }
  void update(at::Tensor /*param*/, const at::Tensor& /*grad*/, std::span<at::Tensor> /*states*/,
              std::span<const exec::UpdateSegment> /*segments*/,
              const exec::UpdateArgs& /*args*/) override {
    fail(ErrorKind::kInternal, "an update without a unit's optimizer");
  }

 private:
  OptimizerOptions options_;
  std::array<std::unique_ptr<exec::Optimizer>, std::size(config::kOptimizers)> all_;
  std::vector<exec::StateSpec> none_;
};

}  // namespace

std::unique_ptr<exec::Optimizer> make_optimizer(const config::Job& job) {
  return std::make_unique<Optimizers>(
      OptimizerOptions{.betas = job.optim.betas,
                       .eps = job.optim.eps,
                       .stochastic = job.precision.master == DType::kBF16,
                       .int8_states = job.optim.states == config::OptimizerStates::kInt8,
                       .muon = job.optim.muon});
}

}  // namespace trireme::optim
