#include "trireme/ops/adapters/adapter.h"

#include <utility>

#include "trireme/ops/matrix_product.h"
#include "trireme/ops/parameter_gradient.h"

namespace trireme::ops {
namespace {

struct HeldFactors : torch::CustomClassHolder {
  explicit HeldFactors(std::vector<Adapter> held) : adapters(std::move(held)) {}
  std::vector<Adapter> adapters;
};

at::Tensor read(const at::Tensor& x, const Noise& noise) {
  return noise.p > 0 ? dropped(x, noise) : x;
}

}  // namespace

at::Tensor Adapter::inner(const at::Tensor& x) const {
  if (!defined()) return {};
  return product(read(x, noise), down.t()).mul_(scale);
}

void Adapter::add_to(const at::Tensor& y, const at::Tensor& inner) const {
  if (defined()) accumulate_product(inner, up.t(), y);
}

at::Tensor Adapter::inner_gradient(const at::Tensor& dy) const {
  if (!defined()) return {};
  return product(dy, up).mul_(scale);
}

void Adapter::add_input_gradient(const at::Tensor& dinner, const at::Tensor& dx) const {
  if (!defined()) return;
  if (noise.p > 0)
    dx.add_(dropped(product(dinner, down), noise));
  else
    accumulate_product(dinner, down, dx);
}

at::Tensor Adapter::down_gradient(const at::Tensor& dinner, const at::Tensor& x,
                                  const WeightGradientsPtr& gradients) const {
  if (!trains()) return {};
  if (deferring(gradients)) {
    gradients->push([*this, dinner, x = x.detach()](const WeightGradientsPtr& own) {
      add_gradient(down, down_gradient(dinner, x, own));
    });
    return {};
  }
  return weight_gradient(dinner, read(x, noise), down, gradients);
}

at::Tensor Adapter::up_gradient(const at::Tensor& dy, const at::Tensor& inner,
                                const WeightGradientsPtr& gradients) const {
  if (!trains()) return {};
  return weight_gradient(dy, inner, up, gradients);
}

void save(torch::autograd::AutogradContext* context, const std::vector<Adapter>& adapters) {
  context->saved_data["adapters"] =
      c10::IValue::make_capsule(c10::make_intrusive<HeldFactors>(adapters));
}

const std::vector<Adapter>& saved_adapters(torch::autograd::AutogradContext* context) {
  return static_cast<const HeldFactors&>(*context->saved_data.at("adapters").toCapsule()).adapters;
}

}  // namespace trireme::ops
