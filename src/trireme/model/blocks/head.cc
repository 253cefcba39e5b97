#include <ATen/TensorOperators.h>
#include <ATen/ops/tanh.h>

#include "trireme/model/blocks/blocks.h"
#include "trireme/ops/linear.h"

namespace trireme::blocks {

static_assert(model::kLogitColumns == ops::kLogitColumns);

at::Tensor LanguageHead::logits(const at::Tensor& x) const {
  const at::Tensor out = ops::linear(norm(x.to(weight().scalar_type()), {}), weight());
  const at::Tensor wide = out.scalar_type() == at::kDouble ? out : out.to(at::kFloat);
  return logits_cap_ == 0 ? wide : at::tanh(wide / logits_cap_) * logits_cap_;
}

std::vector<at::Tensor> LanguageHead::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const auto losses = is_loss_ ? ops::linear_cross_entropy : ops::linear_token_losses;
  return {losses(norm(inputs[0], gradients), weight(), inputs[1], across().first_id(), tp(),
                 logits_, gradients, logits_cap_)};
}

}  // namespace trireme::blocks
