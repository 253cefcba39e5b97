#include "trireme/ops/feed_forward.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/pointwise.h"
#include "trireme/ops/parameter_gradient.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kCost = 4;  // of an exponential, in element operations

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

struct GeluLinear : torch::autograd::Function<GeluLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({x, weight, bias});
    const at::Tensor active = at::empty_like(x);
    TRIREME_DISPATCH(x.scalar_type(), "gelu", [&] {
      for_rows(x.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
        kernels::pointwise_kernels<scalar_t>().gelu(
            elements<scalar_t>(x) + begin, elements<scalar_t>(active) + begin, end - begin);
      });
    });
    return at::linear(active, weight, bias);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const at::Tensor dy = as_rows(grads[0]).contiguous();
    const at::Tensor dx = at::mm(dy, weight);
    const at::Tensor active = at::empty_like(dx);
    TRIREME_DISPATCH(x.scalar_type(), "gelu_backward", [&] {
      for_rows(x.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
        scalar_t* const slope = elements<scalar_t>(dx) + begin;
        kernels::pointwise_kernels<scalar_t>().gelu_backward(
            elements<scalar_t>(x) + begin, slope, slope, elements<scalar_t>(active) + begin,
            end - begin);
      });
    });
    return {dx.view(x.sizes()), weight_gradient(dy, active, weight), bias_gradient(dy, bias)};
  }
};

struct SwigluLinear : torch::autograd::Function<SwigluLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight) {
    context->save_for_backward({gate, up, weight});
    const at::Tensor active = at::empty_like(gate);
    TRIREME_DISPATCH(gate.scalar_type(), "swiglu", [&] {
      for_rows(gate.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
        kernels::pointwise_kernels<scalar_t>().swiglu(
            elements<scalar_t>(gate) + begin, elements<scalar_t>(up) + begin,
            elements<scalar_t>(active) + begin, end - begin);
      });
    });
    return at::linear(active, weight);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &weight = saved[2];
    const at::Tensor dy = as_rows(grads[0]).contiguous();
    const at::Tensor dup = at::mm(dy, weight);
    const at::Tensor dgate = at::empty_like(dup);
    const at::Tensor active = at::empty_like(dup);
    TRIREME_DISPATCH(gate.scalar_type(), "swiglu_backward", [&] {
      for_rows(gate.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
        scalar_t* const slope = elements<scalar_t>(dup) + begin;
        kernels::pointwise_kernels<scalar_t>().swiglu_backward(
            elements<scalar_t>(gate) + begin, elements<scalar_t>(up) + begin, slope,
            elements<scalar_t>(dgate) + begin, slope, elements<scalar_t>(active) + begin,
            end - begin);
      });
    });
    return {dgate.view(gate.sizes()), dup.view(up.sizes()), weight_gradient(dy, active, weight)};
  }
};

}  // namespace

at::Tensor gelu_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return GeluLinear::apply(x.contiguous(), weight, bias);
}

at::Tensor swiglu_linear(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight) {
  return SwigluLinear::apply(gate.contiguous(), up.contiguous(), weight);
}

}  // namespace trireme::ops
