// Forwards of nodes, by the executor's lines `forward` and `recompute`.
#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "trireme/base/error.h"
#include "trireme/exec/executor.h"
#include "trireme/ops/flop_count.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/compile/placement.h"

namespace trireme::exec {

using plan::Instr;
using plan::Verb;

std::vector<at::Tensor> Executor::read_inputs(const Instr& line, bool keep, Saved& saved) const {
  const plan::Node& node = plan_.program.nodes[line.node];
  std::vector<at::Tensor> inputs;
  for (plan::ValueId value : node.reads) {
    std::vector<at::Tensor> parts;  // of each micro-batch
    for (int mb : plan::batches(node, line.mb, plan_.recipe.micro_batches)) {
      parts.push_back(values_.activations.get(value, mb).detach());
      if (keep && flow_.value_has_grad[value]) parts.back().set_requires_grad(true);
    }
    inputs.push_back(parts.size() == 1 ? parts[0] : at::cat(parts));
    if (keep) saved.inputs.push_back(std::move(parts));
  }
  return inputs;
}

void Executor::record_loss(int mb, const at::Tensor& output, Saved& saved) {
  saved.loss = output.options();
  at::Tensor& loss = losses_[mb];
  const at::Tensor sum = output.detach().to(at::kDouble);
  loss = loss.defined() ? loss.add(sum) : sum;
}

void Executor::keep_output(const Instr& line, const StepArgs& args, plan::ValueId value,
                           std::int64_t micro_batch, const at::Tensor& output) {
  const bool first = line.verb == Verb::kForward;
  if (first && args.observer != nullptr) args.observer->on_activation(value, micro_batch, output);
  if (first || plan::contains(retirement_of(line).writes, value))
    values_.activations.put(value, line.mb, output.detach());
}

void Executor::forward(const Instr& line, const StepArgs& args, bool keep) {
  const plan::Node& node = plan_.program.nodes[line.node];
  const bool first = line.verb == Verb::kForward;
  at::AutoGradMode grad_mode(keep);
  Saved saved;
  const std::vector<at::Tensor> inputs = read_inputs(line, keep, saved);
  if (keep) saved.weights = std::make_shared<ops::WeightGradients>();
  const BlockContext context{
      .seed = seed_,
      .step = args.earlier + args.step,
      .micro_batch = plan::micro_batch_id(plan_.mesh, plan_.recipe, rank_, line.mb),
      .node = line.node,
      .training = !node.no_grad,
      .weight_gradients = saved.weights,
      .counts = node.loss && first ? &counts_[line.mb] : nullptr};
  const ops::FlopCount count;
  const std::vector<at::Tensor> outputs = model_.blocks[line.node]->forward(inputs, context);
  if (first) flops_ += flop_factors_[line.node] * count.flops();
  TRIREME_CHECK(outputs.size() == node.writes.size(), "{} wrote {} values, its node declares {}",
                node.name, outputs.size(), node.writes.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (keep) saved.outputs.push_back(torch::autograd::impl::gradient_edge(outputs[i]));
    if (node.loss && first) record_loss(line.mb, outputs[i], saved);
    keep_output(line, args, node.writes[i], context.micro_batch, outputs[i]);
  }
  if (keep) values_.saved.put(line.node, line.mb, std::move(saved));
}

}  // namespace trireme::exec
