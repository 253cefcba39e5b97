// AdamW (Loshchilov & Hutter 2019).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "trireme/exec/optimizer.h"

namespace trireme::optim {

struct AdamWOptions {
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;  // where an update brings none
  bool stochastic =
      false;  // how bf16 masters and states are rounded: up as often as they are near (rounding.h)
  bool int8_states = false;  // moments as 8-bit codes (quantise.h)
};

// With g the scaled gradient and t the update's number, from 1:
//   p -= lr * weight_decay * p                       (before; weight_decay and lr times the segment's factors)
//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
// One pass over masters in fp64, or in fp32 or bf16 with arithmetic in fp32; gradients are of the masters' type, fp32
// or bf16. On the CPU every element has the same roundings at any place, so any sharding gives the same bits. Elsewhere
// LibTorch's operators compute the same formula.
class AdamW : public exec::Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options);

  // "exp_avg" (m), "exp_avg_sq" (v); of 8-bit states each followed by its scales, "exp_avg_scale" ...
  const std::vector<exec::StateSpec>& states() const override { return states_; }
  void update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor> states,
              std::span<const exec::UpdateSegment> segments, const exec::UpdateArgs& args) override;

 private:
  AdamWOptions options_;
  std::vector<exec::StateSpec> states_;
};

}  // namespace trireme::optim
