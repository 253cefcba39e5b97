#include "trireme/ops/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/base/error.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/regions.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a row-parallel bias has its gradient from. TRIREME_PLANT_ERROR plants an error on tensor rank 1, for
// trireme diff to find; forward has none, as rank 1 adds no bias there.
at::Tensor bias_rows(const at::Tensor& own, const TensorParallel& tp) {
#ifdef TRIREME_PLANT_ERROR
  if (tp.rank() == 1) return own.mul(1.5);
#endif
  return own;
}

// x, weight and perhaps a bias.
struct RowLinear : torch::autograd::Function<RowLinear> {
  static at::Tensor forward(AutogradContext* context, at::TensorList in, const TensorParallel& tp,
                            const WeightGradientsPtr& gradients) {
    context->save_for_backward(in.vec());
    save(context, tp);
    save(context, gradients);
    return row_product(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(), tp);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const TensorParallel tp = saved_tensor_parallel(context);
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const at::Tensor own = as_rows(grads[0]).contiguous();
    Pending gathered = gather_rows(own, x.numel() / x.size(-1), tp);
    variable_list result(saved.size() + 2);
    if (saved.size() > 2 && context->needs_input_grad(2))
      result[2] = bias_gradient(bias_rows(own, tp), saved[2], gradients, row_bias_keeps(tp));
    const at::Tensor dy = gathered.wait();
    if (context->needs_input_grad(0)) result[0] = at::mm(dy, weight).view(x.sizes());
    if (context->needs_input_grad(1))
      result[1] = weight_gradient(dy, as_rows(x), weight, gradients);
    return result;
  }
};

// x, `count` weights and perhaps as many biases.
struct ColumnLinears : torch::autograd::Function<ColumnLinears> {
  static variable_list forward(AutogradContext* context, at::TensorList in, std::int64_t count,
                               const TensorParallel& tp, const WeightGradientsPtr& gradients) {
    context->save_for_backward(in.vec());
    context->saved_data["count"] = count;
    save(context, tp);
    save(context, gradients);
    const at::Tensor& x = in[0];
    const std::int64_t rows = whole_rows(x, tp);
    const at::Tensor input = gather_rows(as_rows(x), rows, tp).wait();
    std::vector<std::int64_t> shape = x.sizes().vec();
    if (tp.shares_rows())
      shape = {tp.tokens > 0 ? rows / tp.tokens : 1, tp.tokens > 0 ? tp.tokens : rows, 0};
    const auto weights = static_cast<std::size_t>(count);
    variable_list outputs;
    for (std::size_t i = 0; i < weights; ++i) {
      const at::Tensor bias = in.size() > 1 + weights ? in[1 + weights + i] : at::Tensor();
      shape.back() = in[1 + i].size(0);
      outputs.push_back(at::linear(input, in[1 + i], bias).view(shape));
    }
    return outputs;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const auto count = static_cast<std::size_t>(context->saved_data["count"].toInt());
    const TensorParallel tp = saved_tensor_parallel(context);
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const at::Tensor& x = saved[0];
    const variable_list params(saved.begin() + 1, saved.end());
    variable_list dy;
    for (const at::Tensor& grad : grads) dy.push_back(as_rows(grad).contiguous());
    const bool later = deferring(gradients);
    // Both collectives travel while the products run that need neither.
    Pending gathered = later ? Pending() : gather_rows(as_rows(x), dy[0].size(0), tp);
    Pending summed =
        context->needs_input_grad(0)
            ? sum_partials(input_gradient(dy, at::TensorList(params).slice(0, count)), tp)
            : Pending();
    variable_list result(1);
    if (later) {
      gradients->push([dy, x = x.detach(), params, tp] {
        const at::Tensor input = gather_rows(as_rows(x), dy[0].size(0), tp).wait();
        const variable_list own = parameter_gradients(dy, input, params);
        for (std::size_t i = 0; i < params.size(); ++i) add_gradient(params[i], own[i]);
      });
    } else {
      for (at::Tensor& own : parameter_gradients(dy, gathered.wait(), params))
        result.push_back(std::move(own));
    }
    if (context->needs_input_grad(0)) result[0] = summed.wait().view(x.sizes());
    result.resize(saved.size() + 3);
    return result;
  }

  // Of weights, one for each dy, and perhaps as many biases.
  static variable_list parameter_gradients(const variable_list& dy, const at::Tensor& input,
                                           const variable_list& params) {
    variable_list result;
    for (std::size_t i = 0; i < params.size(); ++i)
      result.push_back(i < dy.size() ? weight_gradient(dy[i], input, params[i])
                                     : bias_gradient(dy[i - dy.size()], params[i]));
    return result;
  }

  // The sum of dy weight over all outputs.
  static at::Tensor input_gradient(at::TensorList dy, at::TensorList weights) {
    at::Tensor dx = at::mm(dy[0], weights[0]);
    for (std::size_t i = 1; i < dy.size(); ++i) dx.addmm_(dy[i], weights[i]);
    return dx;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const WeightGradientsPtr& gradients) {
  return row_linear(x, weight, bias, {}, gradients);
}

at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const TensorParallel& tp, const WeightGradientsPtr& gradients) {
  variable_list in = {x.contiguous(), weight};
  if (bias.defined()) in.push_back(bias);
  return RowLinear::apply(at::TensorList(in), tp, gradients);
}

at::Tensor column_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const TensorParallel& tp, const WeightGradientsPtr& gradients) {
  return column_linears(x, {{.weight = weight, .bias = bias}}, tp, gradients)[0];
}

std::vector<at::Tensor> column_linears(const at::Tensor& x,
                                       const std::vector<Projection>& projections,
                                       const TensorParallel& tp,
                                       const WeightGradientsPtr& gradients) {
  variable_list outputs;
  if (tp.size() == 1) {
    for (const Projection& each : projections)
      outputs.push_back(linear(x, each.weight, each.bias, gradients));
    return outputs;
  }
  variable_list in = {x.contiguous()};
  for (const Projection& each : projections) in.push_back(each.weight);
  for (const Projection& each : projections) {
    TRIREME_CHECK(each.bias.defined() == projections[0].bias.defined(),
                  "some of {} projections have a bias", projections.size());
    if (each.bias.defined()) in.push_back(each.bias);
  }
  return ColumnLinears::apply(at::TensorList(in), std::ssize(projections), tp, gradients);
}

}  // namespace trireme::ops
