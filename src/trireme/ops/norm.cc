#include "trireme/ops/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <type_traits>

#include "trireme/ops/aten/norm.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/norm.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/parameter_gradient.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Stats {
  at::Tensor mean;  // undefined: no mean is taken
  at::Tensor scale;
};

template <typename T>
T* elements_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? elements<T>(tensor) : nullptr;
}

// Calls `body` with kernels for streams of this type and a null pointer of theirs.
template <typename T, typename Body>
void with_norms(at::ScalarType stream, const Body& body) {
  using A = kernels::Wide<T>;
  if (stream == c10::CppTypeToScalarType<T>::value)
    body(static_cast<const kernels::NormsOf<T, T>&>(kernels::norm_kernels<T>()),
         static_cast<T*>(nullptr));
  else
    body(kernels::norm_kernels<T>().wide, static_cast<A*>(nullptr));
}

double offset_of(Gain factor) { return factor == Gain::kFromOne ? 1 : 0; }

template <typename T, typename X>
kernels::NormRows<T, X> norm_rows(const at::Tensor& x, const at::Tensor& gain,
                                  const at::Tensor& bias, const Stats& stats, double eps,
                                  Gain factor) {
  using A = kernels::Wide<T>;
  return {.x = elements<X>(x),
          .gain = elements<T>(gain),
          .bias = elements_or_null<T>(bias),
          .mean = elements_or_null<A>(stats.mean),
          .scale = elements<A>(stats.scale),
          .width = gain.numel(),
          .eps = eps,
          .offset = offset_of(factor)};
}

// Gradients of the stream, gain and, with a mean, bias; `residual`, what else comes to the stream, may be
// undefined.
variable_list norm_backward(const at::Tensor& stream, const at::Tensor& gain,
                            const at::Tensor& bias, const Stats& stats, const at::Tensor& dy,
                            const at::Tensor& residual, const WeightGradientsPtr& gradients,
                            Gain factor) {
  if (!has_kernels(stream)) {
    const aten::NormGradients grads =
        aten::norm_backward(stream, gain, bias, stats.mean, stats.scale, dy, offset_of(factor));
    return {residual.defined() ? grads.x + residual : grads.x,
            deliver_gradient(gain, grads.gain, gradients),
            bias.defined() ? deliver_gradient(bias, grads.bias, gradients) : at::Tensor()};
  }
  const std::int64_t rows = stats.scale.numel();
  const std::int64_t width = gain.numel();
  const std::int64_t chunks = (rows + kSumRows - 1) / kSumRows;
  const at::Tensor dx = at::empty_like(stream);
  // A chunk's sum for gain, then its sum for bias.
  const at::Tensor sums = at::zeros({chunks, 2, width}, stats.scale.options());
  TRIREME_DISPATCH(gain.scalar_type(), "norm_backward", [&] {
    using A = kernels::Wide<scalar_t>;
    with_norms<scalar_t>(stream.scalar_type(), [&](const auto& norms, auto* typed) {
      using X = std::remove_pointer_t<decltype(typed)>;
      const auto view = norm_rows<scalar_t, X>(stream, gain, {}, stats, 0, factor);
      for_rows(chunks, kSumRows * width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          A* const dgain = elements<A>(sums) + 2 * chunk * width;
          norms.backward(view, elements<scalar_t>(dy), elements_or_null<X>(residual),
                         elements<X>(dx), dgain, dgain + width, chunk * kSumRows,
                         std::min(rows, (chunk + 1) * kSumRows));
        }
      });
    });
    kernels::row_kernels<A>().add_rows(elements<A>(sums) + 2 * width, chunks - 1, 2 * width,
                                       2 * width, elements<A>(sums));
  });
  const at::Tensor total = sums[0];
  return {dx, deliver_gradient(gain, total[0], gradients),
          bias.defined() ? deliver_gradient(bias, total[1], gradients) : at::Tensor()};
}

// The branch that was added to the stream; its gradient has the gain's type.
at::Tensor of_gain_type(const at::Tensor& gradient, const at::Tensor& gain) {
  return gradient.defined() ? gradient.to(gain.scalar_type()) : gradient;
}

struct NormResult {
  at::Tensor stream;
  at::Tensor normed;
  Stats stats;
};

// `branch` and `bias` may be undefined.
NormResult norm_forward(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& gain,
                        const at::Tensor& bias, double eps, Gain factor) {
  if (!has_kernels(x)) {
    const at::Tensor stream = branch.defined() ? x + branch : x;
    const aten::Normed out = aten::norm(stream, gain, bias, eps, offset_of(factor));
    return {
        .stream = stream, .normed = out.normed, .stats = {.mean = out.mean, .scale = out.scale}};
  }
  const auto statistic = [&] {
    return at::empty({x.numel() / gain.numel()}, x.options().dtype(wide(x.scalar_type())));
  };
  const Stats stats{.mean = bias.defined() ? statistic() : at::Tensor(), .scale = statistic()};
  const at::Tensor stream = branch.defined() ? at::empty_like(x) : x;
  const at::Tensor normed = at::empty_like(x, gain.scalar_type());
  TRIREME_DISPATCH(gain.scalar_type(), "norm", [&] {
    with_norms<scalar_t>(x.scalar_type(), [&](const auto& norms, auto* typed) {
      using X = std::remove_pointer_t<decltype(typed)>;
      const auto rows = norm_rows<scalar_t, X>(x, gain, bias, stats, eps, factor);
      for_rows(stats.scale.numel(), rows.width, [&](std::int64_t begin, std::int64_t end) {
        norms.forward(rows, elements_or_null<scalar_t>(branch), elements<X>(stream),
                      elements<scalar_t>(normed), begin, end);
      });
    });
  });
  return {.stream = stream, .normed = normed, .stats = stats};
}

// x; with kBranch what is added to it; gain; with kMean the bias.
template <bool kBranch, bool kMean, typename... Tensors>
struct Norm : torch::autograd::Function<Norm<kBranch, kMean, Tensors...>> {
  static variable_list forward(AutogradContext* context, double eps, Gain factor,
                               const WeightGradientsPtr& gradients, const Tensors&... tensors) {
    const variable_list in = {tensors...};
    const at::Tensor& gain = in[1 + kBranch];
    const at::Tensor bias = kMean ? in[2 + kBranch] : at::Tensor();
    const NormResult out =
        norm_forward(in[0], kBranch ? in[1] : at::Tensor(), gain, bias, eps, factor);
    context->saved_data["from one"] = factor == Gain::kFromOne;
    context->set_materialize_grads(false);
    save(context, gradients);
    context->save_for_backward({out.stream, gain, bias, out.stats.mean, out.stats.scale});
    return {out.stream, out.normed};
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    variable_list parts = {grads[0], {}, {}};
    if (grads[1].defined())
      parts = norm_backward(
          saved[0], saved[1], saved[2], {.mean = saved[3], .scale = saved[4]},
          grads[1].contiguous(), grads[0].defined() ? grads[0].contiguous() : at::Tensor(),
          saved_weight_gradients(context),
          context->saved_data["from one"].toBool() ? Gain::kFromOne : Gain::kWhole);
    variable_list result = {{}, {}, {}, parts[0]};  // eps, `factor` and `gradients` have none
    if (kBranch) result.push_back(of_gain_type(parts[0], saved[1]));
    result.push_back(parts[1]);
    if (kMean) result.push_back(parts[2]);
    return result;
  }
};

template <bool kBranch, bool kMean, typename... Tensors>
Branching norm(double eps, Gain factor, const WeightGradientsPtr& gradients,
               const Tensors&... tensors) {
  const variable_list out =
      Norm<kBranch, kMean, Tensors...>::apply(eps, factor, gradients, tensors...);
  return {.stream = out[0], .normed = out[1]};
}

// In contiguous memory; `branch` and `bias` may be undefined.
Branching branch_off(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& gain,
                     const at::Tensor& bias, double eps, const WeightGradientsPtr& gradients,
                     Gain factor) {
  if (branch.defined() && bias.defined())
    return norm<true, true>(eps, factor, gradients, x, branch, gain, bias);
  if (branch.defined()) return norm<true, false>(eps, factor, gradients, x, branch, gain);
  if (bias.defined()) return norm<false, true>(eps, factor, gradients, x, gain, bias);
  return norm<false, false>(eps, factor, gradients, x, gain);
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                      double eps, const WeightGradientsPtr& gradients) {
  return residual_norm(x, {}, gain, bias, eps, gradients).normed;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps,
                    const WeightGradientsPtr& gradients, Gain factor) {
  return residual_norm(x, {}, gain, {}, eps, gradients, Keep::kYes, factor).normed;
}

Branching residual_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& gain,
                        const at::Tensor& bias, double eps, const WeightGradientsPtr& gradients,
                        Keep normed, Gain factor) {
  const at::ScalarType type = gain.scalar_type();
  TRIREME_CHECK(factor == Gain::kWhole || !bias.defined(), "LayerNorm has whole gains only");
  TRIREME_CHECK(x.scalar_type() == type || (x.scalar_type() == wide(type) && !bias.defined()),
                "a norm of {} with a gain of {}", at::toString(x.scalar_type()),
                at::toString(type));
  Branching out = branch_off(x.contiguous(), branch.defined() ? branch.contiguous() : branch, gain,
                             bias, eps, gradients, factor);
  if (normed == Keep::kNo)
    out.normed.source.recomputed = std::make_shared<Recomputed>(
        [stream = out.stream.detach(), gain = gain.detach(),
         bias = bias.defined() ? bias.detach() : bias, eps, factor]() -> variable_list {
          return {norm_forward(stream, {}, gain, bias, eps, factor).normed};
        });
  return out;
}

}  // namespace trireme::ops
