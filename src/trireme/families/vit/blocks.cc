#include "trireme/families/vit/blocks.h"

#include <ATen/ops/log_softmax.h>

#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/linear.h"

namespace trireme::blocks {

at::Tensor VitHead::logits(const at::Tensor& tokens, const exec::BlockContext& context) const {
  return ops::linear(feature(tokens, context), own(0), own(1), context.weight_gradients);
}

std::vector<at::Tensor> VitHead::forward(const std::vector<at::Tensor>& inputs,
                                         const exec::BlockContext& context) {
  const at::Tensor logits = this->logits(inputs[0], context);
  const at::Tensor& labels = inputs[1];
  const at::Tensor labelled = labels.ne(ops::kNoTarget);
  const at::Tensor chances =
      at::log_softmax(logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat), 1);
  const at::Tensor right = chances.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  if (context.counts != nullptr)
    context.counts->add(0, logits.argmax(1).eq(labels).sum().item<double>(),
                        labelled.sum().item<double>());
  return {(right * labelled).sum().neg()};
}

Blocks vit_blocks(const config::Job& job, const model::ModelSpec&, const Ranks& ranks) {
  Blocks blocks;
  add_tower(job, ranks, blocks);
  blocks.push_back(std::make_unique<VitHead>(job.vision, ranks));
  return blocks;
}

}  // namespace trireme::blocks
