#include "trireme/ops/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/ops/parameter_gradient.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// With one bias or without.
template <typename... Bias>
struct Linear : torch::autograd::Function<Linear<Bias...>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const Bias&... bias) {
    context->save_for_backward({x, weight, bias...});
    return at::linear(x, weight, bias...);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = grads[0].reshape({-1, weight.size(0)}).contiguous();
    variable_list result(saved.size());
    if (context->needs_input_grad(0)) result[0] = at::mm(dy, weight).view(x.sizes());
    if (context->needs_input_grad(1))
      result[1] = weight_gradient(dy, x.reshape({-1, x.size(-1)}), weight);
    if (saved.size() > 2 && context->needs_input_grad(2)) result[2] = bias_gradient(dy, saved[2]);
    return result;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (bias.defined()) return Linear<at::Tensor>::apply(x.contiguous(), weight, bias);
  return Linear<>::apply(x.contiguous(), weight);
}

}  // namespace trireme::ops
