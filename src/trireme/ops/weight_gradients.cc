#include "trireme/ops/weight_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zero.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "trireme/base/error.h"

namespace trireme::ops {
namespace {

struct HeldContext : torch::CustomClassHolder {
  explicit HeldContext(WeightGradientsPtr held) : gradients(std::move(held)) {}
  WeightGradientsPtr gradients;
};

}  // namespace

void WeightGradients::run() {
  const at::NoGradGuard no_graph;
  const WeightGradientsPtr own = shared_from_this();
  deferring_ = false;
  for (auto& work : std::exchange(work_, {})) std::exchange(work, nullptr)(own);
}

bool WeightGradients::State::take() {
  if (std::exchange(written, true)) return true;
  TRIREME_CHECK(std::exchange(sum, {})._version() == version,
                "a parameter's gradient comes from an op that adds in place and from another");
  return false;
}

void WeightGradients::adds_in_place(const at::Tensor& param) {
  if (param.is_leaf() && param.requires_grad()) in_place_.try_emplace(param.unsafeGetTensorImpl());
}

void WeightGradients::begin(const at::Tensor& param) {
  const at::NoGradGuard no_graph;
  const auto found = in_place_.find(param.unsafeGetTensorImpl());
  if (found == in_place_.end()) {
    param.grad().zero_();
    return;
  }
  const at::Tensor& sum = param.grad();
  found->second = {.written = false, .sum = sum, .version = sum._version()};
}

GradientTarget WeightGradients::target(const at::Tensor& param) {
  const at::Tensor sum = gradient_sum(param);
  const auto found = in_place_.find(param.unsafeGetTensorImpl());
  const bool written = found == in_place_.end() || found->second.take();
  return {.sum = sum, .into = written ? kernels::Into::kAdd : kernels::Into::kReplace};
}

void WeightGradients::settle() {
  const at::NoGradGuard no_graph;
  for (auto& [param, state] : in_place_)
    if (const at::Tensor sum = state.sum; !state.take()) sum.zero_();
}

void adds_in_place(const at::Tensor& param, const WeightGradientsPtr& gradients) {
  if (gradients != nullptr) gradients->adds_in_place(param);
}

GradientTarget gradient_target(const at::Tensor& param, const WeightGradientsPtr& gradients) {
  const at::Tensor sum = gradient_sum(param);
  if (!sum.defined()) return {};
  if (gradients != nullptr) return gradients->target(param);
  sum.unsafeGetTensorImpl()->bump_version();  // for State::take() of others
  return {.sum = sum};
}

void save(torch::autograd::AutogradContext* context, const WeightGradientsPtr& gradients) {
  if (gradients == nullptr) return;
  context->saved_data["weight_gradients"] =
      c10::IValue::make_capsule(c10::make_intrusive<HeldContext>(gradients));
}

WeightGradientsPtr saved_weight_gradients(torch::autograd::AutogradContext* context) {
  const auto found = context->saved_data.find("weight_gradients");
  if (found == context->saved_data.end()) return nullptr;
  return static_cast<const HeldContext&>(*found->second.toCapsule()).gradients;
}

}  // namespace trireme::ops
