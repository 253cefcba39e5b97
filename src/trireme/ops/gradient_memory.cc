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

  // Whether it holds numbers, which it does from now on. Autograd's sums change the version, our kernels do not.
  bool take() {
    if (std::exchange(written, true)) return true;
    TRIREME_CHECK(version_counter().current_version() == version,
                  "a parameter's gradient comes from an op that adds in place and from autograd");
    return false;
  }

  bool in_place = false;  // for an op
  bool written = true;
  std::uint32_t version = 0;  // when it began
};

// Null for any other tensor.
LentGradient* lent(const at::Tensor& gradient) {
  return dynamic_cast<LentGradient*>(gradient.unsafeGetTensorImpl());
}

// The grad() of a leaf to which ops may add; else undefined.
at::Tensor sum_of(const at::Tensor& param) {
  if (!param.is_leaf() || !param.requires_grad()) return {};
  const at::Tensor& grad = param.grad();
  if (!grad.defined()) return {};
  const at::ScalarType type = grad.scalar_type();
  const bool usable = (type == wide(param.scalar_type()) || type == param.scalar_type()) &&
                      grad.is_contiguous() && grad.device() == param.device();
  return usable ? grad : at::Tensor();
}

}  // namespace

at::Tensor lent_gradient(const at::Tensor& memory) {
  at::Tensor gradient = at::detail::make_tensor<LentGradient>(c10::Storage(memory.storage()),
                                                              memory.key_set(), memory.dtype());
  c10::TensorImpl* const impl = gradient.unsafeGetTensorImpl();
  impl->set_storage_offset(memory.storage_offset());
  impl->set_sizes_and_strides(memory.sizes(), memory.strides());
  return gradient;
}

void begin_gradient(const at::Tensor& gradient) {
  LentGradient* const known = lent(gradient);
  if (known == nullptr || !known->in_place) {
    at::NoGradGuard no_grad;
    gradient.zero_();
    return;
  }
  known->written = false;
  known->version = known->version_counter().current_version();
}

void settle_gradient(const at::Tensor& gradient) {
  LentGradient* const known = lent(gradient);
  if (known == nullptr || known->take()) return;
  at::NoGradGuard no_grad;
  gradient.zero_();
}

void adds_in_place(const at::Tensor& param) {
  const at::Tensor sum = sum_of(param);
  if (!sum.defined()) return;
  if (LentGradient* const known = lent(sum)) known->in_place = true;
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
  const at::Tensor sum = sum_of(param);
  if (!sum.defined()) return {};
  LentGradient* const known = lent(sum);
  const bool written = known == nullptr || known->take();
  return {.sum = sum, .into = written ? kernels::Into::kAdd : kernels::Into::kReplace};
}

}  // namespace trireme::ops
