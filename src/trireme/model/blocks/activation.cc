#include "trireme/model/blocks/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/sigmoid.h>

#include "trireme/base/error.h"
#include "trireme/ops/linear.h"

namespace trireme::blocks {

at::Tensor activated(const at::Tensor& x, config::Activation activation) {
  switch (activation) {
    case config::Activation::kGelu: return at::gelu(x);
    case config::Activation::kGeluTanh: return at::gelu(x, "tanh");
    case config::Activation::kQuickGelu: {
      at::Tensor gate = 1.702 * x;
      return x * gate.sigmoid_();
    }
  }
  TRIREME_CHECK(false, "activation {}", static_cast<int>(activation));
}

ops::Gelu gelu_of(config::Activation activation) {
  switch (activation) {
    case config::Activation::kGelu: return ops::Gelu::kExact;
    case config::Activation::kGeluTanh: return ops::Gelu::kTanh;
    case config::Activation::kQuickGelu: break;
  }
  TRIREME_CHECK(false, "no layer has activation {}", static_cast<int>(activation));
}

at::Tensor activated_linear(const at::Tensor& x, config::Activation activation,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const ops::TensorParallel& tp,
                            const ops::WeightGradientsPtr& gradients) {
  if (activation == config::Activation::kGeluTanh)
    return ops::gelu_linear(x, weight, bias, tp, gradients);
  return ops::row_linear(activated(x, activation), weight, bias, tp, gradients);
}

}  // namespace trireme::blocks
