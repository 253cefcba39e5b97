#include "trireme/ops/norm_across.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Sums of the last dim over all ranks, [.., 1].
at::Tensor sums(const at::Tensor& x, const TensorParallel& tp) {
  at::Tensor own = x.sum(-1, /*keepdim=*/true).contiguous();
  tp.group->all_reduce(comm::buffer(own)).wait();
  return own;
}

// Those of the last dim that this rank counts.
at::Tensor counted(const at::Tensor& x, std::int64_t shared) {
  return x.narrow(-1, shared, x.size(-1) - shared);
}

// x and gain.
struct NormAcross : torch::autograd::Function<NormAcross> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gain,
                            const Features& features, double eps, const TensorParallel& tp,
                            const WeightGradientsPtr& gradients) {
    const at::Tensor x_wide = widened(x);
    const at::Tensor scale = sums(counted(x_wide, features.shared).square(), tp)
                                 .div_(static_cast<double>(features.width))
                                 .add_(eps)
                                 .rsqrt_();
    context->save_for_backward({x, gain, scale});
    context->saved_data["width"] = features.width;
    context->saved_data["shared"] = features.shared;
    save(context, tp);
    save(context, gradients);
    return (x_wide * scale).mul_(gain).to(gain.scalar_type());
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gain = saved[1], &scale = saved[2];
    const auto width = static_cast<double>(context->saved_data["width"].toInt());
    const at::Tensor unit = widened(x) * scale, dy = widened(grads[0]);
    at::Tensor dx = dy * gain;
    const at::Tensor share = sums(dx * unit, saved_tensor_parallel(context)).div_(width);
    const std::int64_t shared = context->saved_data["shared"].toInt();
    counted(dx, shared).sub_(counted(unit, shared) * share);
    dx.mul_(scale);
    const at::Tensor dgain = (dy * unit).reshape({-1, gain.numel()}).sum(0);
    variable_list result = {dx.to(x.scalar_type()),
                            deliver_gradient(gain, dgain, saved_weight_gradients(context))};
    result.resize(6);
    return result;
  }
};

}  // namespace

at::Tensor rms_norm_across(const at::Tensor& x, const at::Tensor& gain, const Features& features,
                           double eps, const TensorParallel& tp,
                           const WeightGradientsPtr& gradients) {
  if (tp.size() == 1) return rms_norm(x, gain, eps, gradients);
  return NormAcross::apply(x, gain, features, eps, tp, gradients);
}

}  // namespace trireme::ops
