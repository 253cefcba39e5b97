#include "trireme/ops/gradient_target.h"

#include "trireme/ops/dispatch.h"

namespace trireme::ops {

void GradientTarget::add(const at::Tensor& gradient) const {
  if (into == kernels::Into::kReplace)
    sum.copy_(gradient);
  else
    sum.add_(gradient);
}

at::Tensor gradient_sum(const at::Tensor& param) {
  if (!param.is_leaf() || !param.requires_grad()) return {};
  const at::Tensor& grad = param.grad();
  if (!grad.defined()) return {};
  const at::ScalarType type = grad.scalar_type();
  const bool usable = (type == wide(param.scalar_type()) || type == param.scalar_type()) &&
                      grad.is_contiguous() && grad.device() == param.device();
  return usable ? grad : at::Tensor();
}

}  // namespace trireme::ops
