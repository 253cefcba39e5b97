#include "trireme/ops/batch.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/comm/tensor_buffer.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GatherBatch : torch::autograd::Function<GatherBatch> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, comm::Group* group) {
    context->saved_data["group"] = reinterpret_cast<std::intptr_t>(group);
    const at::Tensor source = own.contiguous();
    const at::Tensor all =
        at::empty({source.size(0) * group->size(), source.size(1)}, source.options());
    group->all_gather(comm::buffer(source), comm::buffer(all)).wait();
    return all;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto* const group = reinterpret_cast<comm::Group*>(context->saved_data["group"].toInt());
    const at::Tensor all = grads[0].contiguous();
    const at::Tensor own = at::empty({all.size(0) / group->size(), all.size(1)}, all.options());
    group->reduce_scatter(comm::buffer(all), comm::buffer(own)).wait();
    return {own, at::Tensor()};
  }
};

}  // namespace

at::Tensor gather_batch(const at::Tensor& own, comm::Group* group) {
  if (group == nullptr || group->size() == 1) return own;
  return GatherBatch::apply(own, group);
}

}  // namespace trireme::ops
