// Elementwise: an optimizer whose update of an element needs that element alone, in every form of masters and states. A
// formula is a rule: its states, its factors and one step of one element.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/exec/optimizer.h"
#include "trireme/exec/units/flat.h"
#include "trireme/optim/optimizer_options.h"
#include "trireme/optim/quantise.h"

namespace trireme::optim {

struct ElementState {
  std::string_view name;  // as of exec::StateSpec
  Moment moment;          // whether it can be negative: how 8 bits code it
};

// A rule has
//   kName                                    of messages
//   kStates                                  an array of ElementState
//   Factors<T>, factors<T>(options, args, segment)   what its elements have in common, computed in fp64 and rounded once
//   step(factors, param, grad, states)       one element in T; `states` is an array of T. IEEE operations only: vector
//                                            bodies and scalar tails have the same roundings
//   by_operators(options, args, segments)    the same on WideSegments, by LibTorch's operators
template <typename Rule>
inline constexpr std::size_t kStatesOf = std::size(Rule::kStates);

// Of parameters that multiply it by `factor`.
inline double weight_decay(const OptimizerOptions& options, const exec::UpdateArgs& args,
                           double factor) {
  return args.weight_decay.value_or(options.weight_decay) * factor;
}

// One pass over masters in fp64, or in fp32 or bf16 with arithmetic in fp32; gradients are of the masters' type, fp32
// or bf16. On the CPU every element has the same roundings at any place, so any sharding gives the same bits. Elsewhere
// LibTorch's operators compute the same formula. Of 8-bit states each is followed by its scales, "exp_avg_scale" ...
template <typename Rule>
class Elementwise final : public exec::Optimizer {
 public:
  explicit Elementwise(const OptimizerOptions& options) : options_(options) {
    for (const ElementState& state : Rule::kStates) {
      states_.push_back({.name = std::string(state.name)});
      if (!options.int8_states) continue;
      states_.back().type = DType::kU8;
      states_.push_back(
          {.name = std::string(state.name) + "_scale", .type = DType::kF32, .per_block = true});
    }
  }

  const std::vector<exec::StateSpec>& states() const override { return states_; }
  void update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor> states,
              std::span<const exec::UpdateSegment> segments, const exec::UpdateArgs& args) override;

 private:
  OptimizerOptions options_;
  std::vector<exec::StateSpec> states_;
};

// As Elementwise<Rule>::update, by LibTorch's operators: what a GPU runs. Narrow masters and states are widened.
template <typename Rule>
void update_by_operators(const OptimizerOptions& options, const at::Tensor& param,
                         const at::Tensor& grad, std::span<at::Tensor> states,
                         std::span<const exec::UpdateSegment> segments,
                         const exec::UpdateArgs& args);

}  // namespace trireme::optim
