#include "trireme/ops/recomputed.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "trireme/base/error.h"

namespace trireme::ops {
namespace {

struct HeldSource : torch::CustomClassHolder {
  explicit HeldSource(Source held) : source(std::move(held)) {}
  Source source;
};

}  // namespace

const at::Tensor& Recomputed::get(std::size_t index) {
  if (compute_ != nullptr) {
    const at::NoGradGuard no_graph;
    tensors_ = std::exchange(compute_, nullptr)();
  }
  return tensors_.at(index);
}

std::function<at::Tensor()> Operand::reader() const {
  if (source.recomputed != nullptr)
    return [from = source] { return from.recomputed->get(from.index); };
  return [x = value.detach()] { return x; };
}

at::Tensor kept(const at::Tensor& value, const Source& source) {
  return source.recomputed == nullptr ? value : at::Tensor();
}

void save(torch::autograd::AutogradContext* context, const char* name, const Source& source) {
  if (source.recomputed == nullptr) return;
  context->saved_data[name] = c10::IValue::make_capsule(c10::make_intrusive<HeldSource>(source));
}

at::Tensor restored(torch::autograd::AutogradContext* context, const char* name,
                    const at::Tensor& saved) {
  if (saved.defined()) return saved;
  const auto found = context->saved_data.find(name);
  TRIREME_CHECK(found != context->saved_data.end(), "{} is neither kept nor recomputed", name);
  const c10::intrusive_ptr<torch::CustomClassHolder> held = found->second.toCapsule();
  context->saved_data.erase(name);
  const Source& source = static_cast<const HeldSource&>(*held).source;
  return source.recomputed->get(source.index);
}

}  // namespace trireme::ops
