// The smallest optimizer with a state of its own.
#pragma once

#include <string>
#include <vector>

#include "trireme/exec/optimizer.h"

namespace trireme::harness {

class MomentumSgd : public exec::Optimizer {
 public:
  const std::vector<exec::StateSpec>& states() const override { return states_; }
  void update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor> states,
              std::span<const exec::UpdateSegment> segments,
              const exec::UpdateArgs& args) override {
    states[0].mul_(0.9).add_(grad * args.grad_scale);
    param.sub_(states[0] * args.lr);
  }

 private:
  std::vector<exec::StateSpec> states_ = {{.name = "momentum"}};
};

}  // namespace trireme::harness
