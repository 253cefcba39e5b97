#include "trireme/ops/weight_gradients.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace trireme::ops {
namespace {

struct HeldContext : torch::CustomClassHolder {
  explicit HeldContext(WeightGradientsPtr held) : gradients(std::move(held)) {}
  WeightGradientsPtr gradients;
};

}  // namespace

void WeightGradients::run() {
  const at::NoGradGuard no_graph;
  for (std::function<void()>& work : std::exchange(work_, {})) std::exchange(work, nullptr)();
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
