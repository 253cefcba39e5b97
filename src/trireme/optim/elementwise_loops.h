// Elementwise<Rule>::update. Included by the source of each rule.
#pragma once

#include "trireme/optim/elementwise_coded.h"
#include "trireme/optim/elementwise_short.h"
#include "trireme/optim/elementwise_wide.h"

namespace trireme::optim {

template <typename Rule>
void Elementwise<Rule>::update(at::Tensor param, const at::Tensor& grad,
                               std::span<at::Tensor> states,
                               std::span<const exec::UpdateSegment> segments,
                               const exec::UpdateArgs& args) {
  using Short = c10::BFloat16;
  TRIREME_CHECK(args.step >= 1 && states.size() == states_.size(), "{}: update {} with {} states",
                Rule::kName, args.step, states.size());
  const at::ScalarType type = param.scalar_type(), grads = grad.scalar_type();
  const bool narrow = grads == at::kBFloat16;
  TRIREME_CHECK(
      (type == at::kDouble && grads == at::kDouble && !options_.int8_states) ||
          ((type == at::kFloat || type == at::kBFloat16) && (grads == at::kFloat || narrow)),
      "{}: masters of {} with gradients of {}", Rule::kName, c10::toString(type),
      c10::toString(grads));
  TRIREME_CHECK(options_.int8_states || states[0].scalar_type() == type,
                "{}: states have the type of masters", Rule::kName);
  TRIREME_CHECK(param.is_contiguous() && grad.is_contiguous(), "{}: shards are contiguous",
                Rule::kName);
  const auto with = [&](auto update) { update(options_, param, grad, states, segments, args); };
  if (!exec::on_host(param.device())) return with(update_by_operators<Rule>);
  if (options_.int8_states) {
    if (type == at::kFloat)
      return with(narrow ? update_coded_shard<Rule, float, Short>
                         : update_coded_shard<Rule, float, float>);
    return with(narrow ? update_coded_shard<Rule, Short, Short>
                       : update_coded_shard<Rule, Short, float>);
  }
  if (type == at::kDouble) return with(update_wide_shard<Rule, double, double>);
  if (type == at::kFloat)
    return with(narrow ? update_wide_shard<Rule, float, Short>
                       : update_wide_shard<Rule, float, float>);
  if (options_.stochastic)
    return with(narrow ? update_short_shard<Rule, true, Short, std::uint16_t>
                       : update_short_shard<Rule, true, float, float>);
  with(narrow ? update_short_shard<Rule, false, Short, std::uint16_t>
              : update_short_shard<Rule, false, float, float>);
}

}  // namespace trireme::optim
