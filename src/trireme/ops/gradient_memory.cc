#include "trireme/ops/gradient_memory.h"

#include <ATen/ops/zero.h>
#include <c10/core/TensorImpl.h>

#include <utility>

#include "trireme/base/error.h"
#include "trireme/ops/dispatch.h"

namespace trireme::ops {
namespace {

struct LentGradient final : c10::TensorImpl {
  using c10::TensorImpl::TensorImpl;
  bool written = true;
};

// Null for any other tensor.
LentGradient* lent(const at::Tensor& gradient) {
  return dynamic_cast<LentGradient*>(gradient.unsafeGetTensorImpl());
}

}  // namespace

at::Tensor lent_gradient(const at::Tensor& memory) {
  at::Tensor gradient = at::detail::make_tensor<LentGradient>(
      c10::Storage(memory.storage()), memory.key_set(), memory.dtype());
  c10::TensorImpl* const impl = gradient.unsafeGetTensorImpl();
  impl->set_storage_offset(memory.storage_offset());
  impl->set_sizes_and_strides(memory.sizes(), memory.strides());
  return gradient;
}

void lend_gradient(const at::Tensor& param, const at::Tensor& gradient) {
  param.mutable_grad() = gradient;
  // Runs before autograd adds what ops have returned.
  param.register_hook([gradient](const at::Tensor& returned) {
    if (returned.defined()) settle(gradient);
  });
}

void forget(const at::Tensor& gradient) {
  LentGradient* const known = lent(gradient);
  TRIREME_CHECK(known != nullptr, "a gradient that is not lent is always in use");
  known->written = false;
}

void settle(const at::Tensor& gradient) {
  LentGradient* const known = lent(gradient);
  if (known == nullptr || std::exchange(known->written, true)) return;
  at::NoGradGuard no_grad;
  gradient.zero_();
}

void GradientMemory::add(const at::Tensor& gradient) const {
  if (into == kernels::Into::kReplace)
    sum.copy_(gradient);
  else
    sum.add_(gradient);
}

const at::Tensor& GradientMemory::settled() const {
  if (into == kernels::Into::kReplace) sum.zero_();
  return sum;
}

GradientMemory gradient_memory(const at::Tensor& param) {
  if (!param.is_leaf() || !param.requires_grad()) return {};
  const at::Tensor& grad = param.grad();
  if (!grad.defined()) return {};
  const at::ScalarType type = grad.scalar_type();
  const bool usable = (type == wide(param.scalar_type()) || type == param.scalar_type()) &&
                      grad.is_contiguous() && grad.device() == param.device();
  if (!usable) return {};
  LentGradient* const known = lent(grad);
  const bool written = known == nullptr || std::exchange(known->written, true);
  return {.sum = grad, .into = written ? kernels::Into::kAdd : kernels::Into::kReplace};
}

}  // namespace trireme::ops
