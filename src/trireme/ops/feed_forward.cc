#include "trireme/ops/feed_forward.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/ops/aten/pointwise.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/pointwise.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/regions.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kCost = 4;  // of an exponential, in element operations

at::Tensor activation(const at::Tensor& x) {
  if (!has_kernels(x)) return aten::gelu(x);
  const at::Tensor active = at::empty_like(x);
  TRIREME_DISPATCH(x.scalar_type(), "gelu", [&] {
    for_rows(x.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
      kernels::pointwise_kernels<scalar_t>().gelu(elements<scalar_t>(x) + begin,
                                                  elements<scalar_t>(active) + begin, end - begin);
    });
  });
  return active;
}

// Uses up dy.
aten::GeluBackward activation_backward(const at::Tensor& x, const at::Tensor& dy) {
  if (!has_kernels(x)) return aten::gelu_backward(x, dy);
  const at::Tensor active = at::empty_like(dy);
  TRIREME_DISPATCH(x.scalar_type(), "gelu_backward", [&] {
    for_rows(x.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
      scalar_t* const slope = elements<scalar_t>(dy) + begin;
      kernels::pointwise_kernels<scalar_t>().gelu_backward(
          elements<scalar_t>(x) + begin, slope, slope, elements<scalar_t>(active) + begin,
          end - begin);
    });
  });
  return {.dx = dy, .y = active};
}

at::Tensor activation(const at::Tensor& gate, const at::Tensor& up) {
  if (!has_kernels(gate)) return aten::swiglu(gate, up);
  const at::Tensor active = at::empty_like(gate);
  TRIREME_DISPATCH(gate.scalar_type(), "swiglu", [&] {
    for_rows(gate.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
      kernels::pointwise_kernels<scalar_t>().swiglu(
          elements<scalar_t>(gate) + begin, elements<scalar_t>(up) + begin,
          elements<scalar_t>(active) + begin, end - begin);
    });
  });
  return active;
}

// Uses up dy.
aten::SwigluBackward activation_backward(const at::Tensor& gate, const at::Tensor& up,
                                         const at::Tensor& dy) {
  if (!has_kernels(gate)) return aten::swiglu_backward(gate, up, dy);
  const at::Tensor dgate = at::empty_like(dy);
  const at::Tensor active = at::empty_like(dy);
  TRIREME_DISPATCH(gate.scalar_type(), "swiglu_backward", [&] {
    for_rows(gate.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
      scalar_t* const slope = elements<scalar_t>(dy) + begin;
      kernels::pointwise_kernels<scalar_t>().swiglu_backward(
          elements<scalar_t>(gate) + begin, elements<scalar_t>(up) + begin, slope,
          elements<scalar_t>(dgate) + begin, slope, elements<scalar_t>(active) + begin,
          end - begin);
    });
  });
  return {.dgate = dgate, .dup = dy, .y = active};
}

struct GeluLinear : torch::autograd::Function<GeluLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const TensorParallel& tp,
                            const WeightGradientsPtr& gradients) {
    context->save_for_backward({x, weight, bias});
    save(context, tp);
    save(context, gradients);
    return row_product(activation(x), weight, bias, tp);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const TensorParallel tp = saved_tensor_parallel(context);
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const at::Tensor own = as_rows(grads[0]).contiguous();
    Pending gathered = gather_rows(own, x.numel() / x.size(-1), tp);
    const at::Tensor dbias = bias_gradient(own, saved[2], gradients, row_bias_keeps(tp));
    const at::Tensor dy = gathered.wait();
    const auto [dx, active] = activation_backward(as_rows(x), at::mm(dy, weight));
    return {dx.view(x.sizes()), weight_gradient(dy, active, weight, gradients), dbias, {}, {}};
  }
};

struct SwigluLinear : torch::autograd::Function<SwigluLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight, const TensorParallel& tp,
                            const WeightGradientsPtr& gradients) {
    context->save_for_backward({gate, up, weight});
    save(context, tp);
    save(context, gradients);
    return row_product(activation(gate, up), weight, {}, tp);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &weight = saved[2];
    const at::Tensor dy = gather_rows(as_rows(grads[0]).contiguous(), up.numel() / up.size(-1),
                                      saved_tensor_parallel(context))
                              .wait();
    const auto [dgate, dup, active] =
        activation_backward(as_rows(gate), as_rows(up), at::mm(dy, weight));
    return {dgate.view(gate.sizes()),
            dup.view(up.sizes()),
            weight_gradient(dy, active, weight, saved_weight_gradients(context)),
            {},
            {}};
  }
};

}  // namespace

at::Tensor gelu_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const TensorParallel& tp, const WeightGradientsPtr& gradients) {
  return GeluLinear::apply(x.contiguous(), weight, bias, tp, gradients);
}

at::Tensor swiglu_linear(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                         const TensorParallel& tp, const WeightGradientsPtr& gradients) {
  return SwigluLinear::apply(gate.contiguous(), up.contiguous(), weight, tp, gradients);
}

}  // namespace trireme::ops
