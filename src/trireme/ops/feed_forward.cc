#include "trireme/ops/feed_forward.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/ops/aten/pointwise.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/pointwise.h"
#include "trireme/ops/matrix_product.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kCost = 4;  // of an exponential, in element operations

at::Tensor activation(const at::Tensor& x, Gelu kind) {
  if (kind == Gelu::kExact) return at::gelu(x);
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
aten::GeluBackward activation_backward(const at::Tensor& x, const at::Tensor& dy, Gelu kind) {
  if (kind == Gelu::kExact) {
    at::Tensor slope = dy;
    at::gelu_backward_out(slope, dy, x);
    return {.dx = slope, .y = at::gelu(x)};
  }
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

at::Tensor activation(const at::Tensor& gate, const at::Tensor& up, Gate kind) {
  const bool silu = kind == Gate::kSilu;
  if (!has_kernels(gate)) return silu ? aten::swiglu(gate, up) : aten::geglu(gate, up);
  const at::Tensor active = at::empty_like(gate);
  TRIREME_DISPATCH(gate.scalar_type(), "gated", [&] {
    const auto& kernels = kernels::pointwise_kernels<scalar_t>();
    const auto gated = silu ? kernels.swiglu : kernels.geglu;
    for_rows(gate.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
      gated(elements<scalar_t>(gate) + begin, elements<scalar_t>(up) + begin,
            elements<scalar_t>(active) + begin, end - begin);
    });
  });
  return active;
}

// Uses up dy.
aten::GatedBackward activation_backward(const at::Tensor& gate, const at::Tensor& up,
                                        const at::Tensor& dy, Gate kind) {
  const bool silu = kind == Gate::kSilu;
  if (!has_kernels(gate))
    return silu ? aten::swiglu_backward(gate, up, dy) : aten::geglu_backward(gate, up, dy);
  const at::Tensor dgate = at::empty_like(dy);
  const at::Tensor active = at::empty_like(dy);
  TRIREME_DISPATCH(gate.scalar_type(), "gated_backward", [&] {
    const auto& kernels = kernels::pointwise_kernels<scalar_t>();
    const auto backward = silu ? kernels.swiglu_backward : kernels.geglu_backward;
    for_rows(gate.numel(), kCost, [&](std::int64_t begin, std::int64_t end) {
      scalar_t* const slope = elements<scalar_t>(dy) + begin;
      backward(elements<scalar_t>(gate) + begin, elements<scalar_t>(up) + begin, slope,
               elements<scalar_t>(dgate) + begin, slope, elements<scalar_t>(active) + begin,
               end - begin);
    });
  });
  return {.dgate = dgate, .dup = dy, .y = active};
}

// Gradients of the layer's result, of the activation that it reads, and of its adapter's inner rows.
struct LayerGradients {
  LayerGradients(at::Tensor of_result, const at::Tensor& weight, const Adapter& adapter)
      : dy(std::move(of_result)), dinner(adapter.inner_gradient(dy)), dactive(product(dy, weight)) {
    adapter.add_input_gradient(dinner, dactive);
  }
  at::Tensor dy;
  at::Tensor dinner;
  at::Tensor dactive;
};

// x, weight, bias and perhaps an adapter's two.
struct GeluLinear : torch::autograd::Function<GeluLinear> {
  static at::Tensor forward(AutogradContext* context, at::TensorList in, const Adapter& adapter,
                            const TensorParallel& tp, const WeightGradientsPtr& gradients,
                            const Source& source, Gelu kind) {
    const at::Tensor active = activation(in[0], kind);
    const at::Tensor inner = adapter.inner(as_rows(active));
    context->save_for_backward({kept(in[0], source), in[1], in[2], inner});
    save(context, "x", source);
    context->saved_data["exact"] = kind == Gelu::kExact;
    save(context, {adapter});
    save(context, tp);
    save(context, gradients);
    return row_product(active, in[1], in[2], tp, adapter, inner, gradients);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor x = restored(context, "x", saved[0]), &weight = saved[1];
    const Adapter& adapter = saved_adapters(context)[0];
    const TensorParallel tp = saved_tensor_parallel(context);
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const at::Tensor own = as_rows(grads[0]).contiguous();
    Pending gathered = gather_rows(own, x.numel() / x.size(-1), tp);
    const at::Tensor dbias = bias_gradient(own, saved[2], gradients, row_bias_keeps(tp));
    const LayerGradients layer(gathered.wait(), weight, adapter);
    const Gelu kind = context->saved_data["exact"].toBool() ? Gelu::kExact : Gelu::kTanh;
    const auto [dx, active] = activation_backward(as_rows(x), layer.dactive, kind);
    variable_list result = {dx.view(x.sizes()),
                            weight_gradient(layer.dy, active, weight, gradients), dbias};
    if (adapter.defined()) {
      result.push_back(adapter.down_gradient(layer.dinner, active, gradients));
      result.push_back(adapter.up_gradient(layer.dy, saved[3], gradients));
    }
    result.resize(result.size() + 5);
    return result;
  }
};

// gate, up, weight, perhaps a bias, and perhaps an adapter's two.
struct GatedLinear : torch::autograd::Function<GatedLinear> {
  static at::Tensor forward(AutogradContext* context, at::TensorList in, const Adapter& adapter,
                            const TensorParallel& tp, const WeightGradientsPtr& gradients,
                            const Source& gate, const Source& up, Gate kind) {
    const at::Tensor active = activation(in[0], in[1], kind);
    const at::Tensor inner = adapter.inner(as_rows(active));
    const at::Tensor bias = in.size() % 2 == 0 ? in[3] : at::Tensor();
    context->save_for_backward({kept(in[0], gate), kept(in[1], up), in[2], inner, bias});
    save(context, "gate", gate);
    save(context, "up", up);
    context->saved_data["silu"] = kind == Gate::kSilu;
    save(context, {adapter});
    save(context, tp);
    save(context, gradients);
    return row_product(active, in[2], bias, tp, adapter, inner, gradients);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gate = restored(context, "gate", saved[0]),
                     up = restored(context, "up", saved[1]), &weight = saved[2], &bias = saved[4];
    const Adapter& adapter = saved_adapters(context)[0];
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const TensorParallel tp = saved_tensor_parallel(context);
    const at::Tensor own = as_rows(grads[0]).contiguous();
    Pending gathered = gather_rows(own, up.numel() / up.size(-1), tp);
    at::Tensor dbias;
    if (bias.defined()) dbias = bias_gradient(own, bias, gradients, row_bias_keeps(tp));
    const LayerGradients layer(gathered.wait(), weight, adapter);
    const Gate kind = context->saved_data["silu"].toBool() ? Gate::kSilu : Gate::kGeluTanh;
    const auto [dgate, dup, active] =
        activation_backward(as_rows(gate), as_rows(up), layer.dactive, kind);
    variable_list result = {dgate.view(gate.sizes()), dup.view(up.sizes()),
                            weight_gradient(layer.dy, active, weight, gradients)};
    if (bias.defined()) result.push_back(dbias);
    if (adapter.defined()) {
      result.push_back(adapter.down_gradient(layer.dinner, active, gradients));
      result.push_back(adapter.up_gradient(layer.dy, saved[3], gradients));
    }
    result.resize(result.size() + 6);
    return result;
  }
};

}  // namespace

at::Tensor gelu_linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                       const TensorParallel& tp, const WeightGradientsPtr& gradients,
                       const Adapter& adapter, Gelu kind) {
  variable_list in = {x.value.contiguous(), weight, bias};
  append(in, adapter);
  return GeluLinear::apply(at::TensorList(in), adapter, tp, gradients, x.source, kind);
}

at::Tensor gated_linear(const Operand& gate, const Operand& up, const at::Tensor& weight,
                        const TensorParallel& tp, const WeightGradientsPtr& gradients,
                        const Adapter& adapter, Gate kind, const at::Tensor& bias) {
  variable_list in = {gate.value.contiguous(), up.value.contiguous(), weight};
  if (bias.defined()) in.push_back(bias);
  append(in, adapter);
  return GatedLinear::apply(at::TensorList(in), adapter, tp, gradients, gate.source, up.source,
                            kind);
}

}  // namespace trireme::ops
