// Muon (Jordan et al. 2024): orthogonalised momentum.
#pragma once

#include <vector>

#include "trireme/exec/optimizer.h"
#include "trireme/optim/optimizer_options.h"

namespace trireme::optim {

// With g the scaled gradient and M the state "momentum":
//   M = mu M + (1 - mu) g,  u = (1 - mu) g + mu M
//   O = orthogonalise(u) * update_factor
//   p = p (1 - lr * weight_decay) - lr O              (weight_decay and lr times the segment's factors)
// as torch.optim.Muon has it. In the masters' type, fp32 or fp64.
class Muon final : public exec::MatrixOptimizer {
 public:
  explicit Muon(const OptimizerOptions& options);

  const std::vector<exec::StateSpec>& states() const override { return states_; }
  void direct(const at::Tensor& grad, std::span<at::Tensor> states, const at::Tensor& direction,
              const exec::UpdateArgs& args) override;
  void update_matrix(const at::Tensor& matrix) override;
  void update(at::Tensor param, const at::Tensor& updates, std::span<at::Tensor> states,
              std::span<const exec::UpdateSegment> segments, const exec::UpdateArgs& args) override;

 private:
  OptimizerOptions options_;
  std::vector<exec::StateSpec> states_;
};

// Newton-Schulz in place: X = u / max(|u|, 1e-7) in the Frobenius norm, then five times, with S = X X^T,
// X = a X + (b S + c S S) X. Singular values come near 1, zeros stay. Works on the shorter side.
void orthogonalise(const at::Tensor& matrix, config::NewtonSchulz iteration);

// The factor of an update of an A x B matrix.
double update_factor(std::int64_t rows, std::int64_t columns, config::UpdateScale scale);

}  // namespace trireme::optim
