#include "trireme/ops/linear.h"

#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ops/matrix_product.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Source of the gradient of a row-parallel bias. TRIREME_PLANT_ERROR plants an error on tensor rank 1, for trireme diff
// to find; forward has none, as rank 1 adds no bias there.
at::Tensor bias_rows(const at::Tensor& own, const TensorParallel& tp) {
#ifdef TRIREME_PLANT_ERROR
  if (tp.rank() == 1) return own.mul(1.5);
#endif
  return own;
}

constexpr const char* kX = "x";

bool any_trains(at::TensorList params) {
  return std::ranges::any_of(params, [](const at::Tensor& param) { return param.requires_grad(); });
}

// x, for save_for_backward, if one of the parameters trains.
at::Tensor kept_input(AutogradContext* context, const at::Tensor& x, const Source& source,
                      at::TensorList params) {
  if (!any_trains(params)) return {};
  save(context, kX, source);
  return kept(x, source);
}

// x, weight, perhaps a bias, and perhaps an adapter's two.
struct RowLinear : torch::autograd::Function<RowLinear> {
  static at::Tensor forward(AutogradContext* context, at::TensorList in, const Adapter& adapter,
                            const TensorParallel& tp, const WeightGradientsPtr& gradients,
                            const Source& source) {
    const at::Tensor &x = in[0], &weight = in[1];
    const bool biased = in.size() % 2 == 1;
    const at::Tensor bias = biased ? in[2] : at::Tensor();
    const at::Tensor inner = adapter.inner(as_rows(x));
    context->save_for_backward({kept_input(context, x, source, in.slice(1)), weight, bias, inner});
    context->saved_data["shape"] = x.sizes().vec();
    save(context, {adapter});
    save(context, tp);
    save(context, gradients);
    return row_product(x, weight, bias, tp, adapter, inner, gradients);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &weight = saved[1], &bias = saved[2], &inner = saved[3];
    const Adapter& adapter = saved_adapters(context)[0];
    const bool trains = weight.requires_grad() || adapter.trains();
    const at::Tensor x = trains ? as_rows(restored(context, kX, saved[0])) : at::Tensor();
    const TensorParallel tp = saved_tensor_parallel(context);
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const at::Tensor own = as_rows(grads[0]).contiguous();
    Pending gathered = gather_rows(own, c10::multiply_integers(shape) / shape.back(), tp);
    variable_list result(2);
    if (bias.defined())
      result.push_back(bias_gradient(bias_rows(own, tp), bias, gradients, row_bias_keeps(tp)));
    const at::Tensor dy = gathered.wait();
    const at::Tensor dinner = adapter.inner_gradient(dy);
    if (context->needs_input_grad(0)) {
      const at::Tensor dx = product(dy, weight);
      adapter.add_input_gradient(dinner, dx);
      result[0] = dx.view(shape);
    }
    result[1] = weight_gradient(dy, x, weight, gradients);
    if (adapter.defined()) {
      result.push_back(adapter.down_gradient(dinner, x, gradients));
      result.push_back(adapter.up_gradient(dy, inner, gradients));
    }
    result.resize(result.size() + 4);
    return result;
  }
};

// x, `count` weights, perhaps as many biases, and the two of each adapter.
struct ColumnLinears : torch::autograd::Function<ColumnLinears> {
  // What a backward needs for the gradients of parameters.
  struct Layers {
    variable_list params;  // weights and biases
    std::vector<Adapter> adapters;
    variable_list inners;
    variable_list dy;
    variable_list dinners;

    // In the order of inputs(); x: all rows.
    variable_list gradients(const at::Tensor& x, const WeightGradientsPtr& own) const {
      variable_list result;
      for (std::size_t i = 0; i < params.size(); ++i)
        result.push_back(i < dy.size() ? weight_gradient(dy[i], x, params[i], own)
                                       : bias_gradient(dy[i - dy.size()], params[i], own));
      for (std::size_t i = 0; i < adapters.size(); ++i) {
        if (!adapters[i].defined()) continue;
        result.push_back(adapters[i].down_gradient(dinners[i], x, own));
        result.push_back(adapters[i].up_gradient(dy[i], inners[i], own));
      }
      return result;
    }
    variable_list inputs() const {
      variable_list all = params;
      for (const Adapter& adapter : adapters) append(all, adapter);
      return all;
    }
    void add_gradients(const at::Tensor& x, const WeightGradientsPtr& own) const {
      const variable_list all = inputs(), returned = gradients(x, own);
      for (std::size_t i = 0; i < all.size(); ++i) add_gradient(all[i], returned[i]);
    }
  };

  static variable_list forward(AutogradContext* context, at::TensorList in,
                               const std::vector<Adapter>& adapters, const TensorParallel& tp,
                               const WeightGradientsPtr& gradients, const Source& source) {
    const at::Tensor& x = in[0];
    const std::size_t count = adapters.size();
    const auto adapted = std::ranges::count_if(adapters, &Adapter::defined);
    const bool biased = in.size() > 1 + count + 2 * static_cast<std::size_t>(adapted);
    const std::int64_t rows = whole_rows(x, tp);
    const at::Tensor input = gather_rows(as_rows(x), rows, tp).wait();
    std::vector<std::int64_t> shape = x.sizes().vec();
    if (tp.shares_rows())
      shape = {tp.tokens > 0 ? rows / tp.tokens : 1, tp.tokens > 0 ? tp.tokens : rows, 0};
    variable_list kept = in.slice(0, 1 + (biased ? 2 : 1) * count).vec();
    kept[0] = kept_input(context, x, source, in.slice(1));
    variable_list outputs;
    for (std::size_t i = 0; i < count; ++i) {
      adds_in_place(in[1 + i], gradients);
      shape.back() = in[1 + i].size(0);
      const at::Tensor y = affine(input, in[1 + i], biased ? in[1 + count + i] : at::Tensor());
      kept.push_back(adapters[i].inner(input));
      adapters[i].add_to(y, kept.back());
      outputs.push_back(y.view(shape));
    }
    context->save_for_backward(kept);
    context->saved_data["shape"] = x.sizes().vec();
    save(context, adapters);
    save(context, tp);
    save(context, gradients);
    return outputs;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const TensorParallel tp = saved_tensor_parallel(context);
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    Layers layers = saved_layers(context, saved);
    const bool trains = any_trains(layers.inputs());
    const at::Tensor x = trains ? restored(context, kX, saved[0]) : at::Tensor();
    for (std::size_t i = 0; i < grads.size(); ++i) {
      layers.dy.push_back(as_rows(grads[i]).contiguous());
      layers.dinners.push_back(layers.adapters[i].inner_gradient(layers.dy[i]));
    }
    const std::int64_t rows = layers.dy[0].size(0);
    const bool later = deferring(gradients);
    // Both collectives travel while the products run that need neither.
    Pending gathered = later || !trains ? Pending() : gather_rows(as_rows(x), rows, tp);
    Pending summed =
        context->needs_input_grad(0) ? sum_partials(input_gradient(layers), tp) : Pending();
    variable_list result(1);
    if (later && trains) {
      gradients->push([layers, x = x.detach(), rows, tp](const WeightGradientsPtr& own) {
        layers.add_gradients(gather_rows(as_rows(x), rows, tp).wait(), own);
      });
    } else if (trains) {
      for (at::Tensor& own : layers.gradients(gathered.wait(), gradients))
        result.push_back(std::move(own));
    }
    if (context->needs_input_grad(0))
      result[0] = summed.wait().view(context->saved_data["shape"].toIntVector());
    result.resize(1 + layers.inputs().size() + 4);
    return result;
  }

  static Layers saved_layers(AutogradContext* context, const variable_list& saved) {
    Layers layers{.adapters = saved_adapters(context)};
    const auto inners = saved.end() - std::ssize(layers.adapters);
    layers.params.assign(saved.begin() + 1, inners);
    layers.inners.assign(inners, saved.end());
    return layers;
  }

  // The sum over all outputs.
  static at::Tensor input_gradient(const Layers& layers) {
    at::Tensor dx = product(layers.dy[0], layers.params[0]);
    for (std::size_t i = 1; i < layers.dy.size(); ++i)
      accumulate_product(layers.dy[i], layers.params[i], dx);
    for (std::size_t i = 0; i < layers.dy.size(); ++i)
      layers.adapters[i].add_input_gradient(layers.dinners[i], dx);
    return dx;
  }
};

variable_list column_products(const Operand& x, const std::vector<Projection>& projections,
                              const TensorParallel& tp, const WeightGradientsPtr& gradients) {
  variable_list outputs;
  if (tp.size() == 1) {
    for (const Projection& each : projections)
      outputs.push_back(linear(x, each.weight, each.bias, gradients, each.adapter));
    return outputs;
  }
  variable_list in = {x.value.contiguous()};
  for (const Projection& each : projections) in.push_back(each.weight);
  for (const Projection& each : projections) {
    TRIREME_CHECK(each.bias.defined() == projections[0].bias.defined(),
                  "some of {} projections have a bias", projections.size());
    if (each.bias.defined()) in.push_back(each.bias);
  }
  std::vector<Adapter> adapters;
  for (const Projection& each : projections) {
    append(in, each.adapter);
    adapters.push_back(each.adapter);
  }
  return ColumnLinears::apply(at::TensorList(in), adapters, tp, gradients, x.source);
}

}  // namespace

at::Tensor linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                  const WeightGradientsPtr& gradients, const Adapter& adapter) {
  return row_linear(x, weight, bias, {}, gradients, adapter);
}

at::Tensor row_linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                      const TensorParallel& tp, const WeightGradientsPtr& gradients,
                      const Adapter& adapter) {
  variable_list in = {x.value.contiguous(), weight};
  if (bias.defined()) in.push_back(bias);
  append(in, adapter);
  return RowLinear::apply(at::TensorList(in), adapter, tp, gradients, x.source);
}

Operand column_linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                      const TensorParallel& tp, const WeightGradientsPtr& gradients, Keep result,
                      const Adapter& adapter) {
  return column_linears(x, {{.weight = weight, .bias = bias, .adapter = adapter}}, tp, gradients,
                        result)[0];
}

std::vector<Operand> column_linears(const Operand& x, const std::vector<Projection>& projections,
                                    const TensorParallel& tp, const WeightGradientsPtr& gradients,
                                    Keep results) {
  const variable_list outputs = column_products(x, projections, tp, gradients);
  std::shared_ptr<Recomputed> recomputed;
  if (results == Keep::kNo)
    recomputed = std::make_shared<Recomputed>([read = x.reader(), projections, tp] {
      return column_products(read(), projections, tp, {});
    });
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    operands.emplace_back(outputs[i], Source{.recomputed = recomputed, .index = i});
  return operands;
}

}  // namespace trireme::ops
