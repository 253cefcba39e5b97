#include "trireme/families/llama/blocks.h"

#include <ATen/ops/scalar_tensor.h>

#include "trireme/model/blocks/decoder.h"
#include "trireme/model/blocks/mrope.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
std::vector<at::Tensor> LlamaEmbed::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  const at::Tensor x = ops::embedding(inputs[0], param(0), across().first_id(), tp());
  if (multiplier_ == 1) return {x};
  // A number, of which backward keeps no tensor.
  return {x * at::scalar_tensor(multiplier_, x.scalar_type()).item<double>()};
}

at::Tensor LlamaHead::norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const {
  const at::Tensor normed = ops::rms_norm(x, param(0), norm_eps(), gradients, gain_);
  return logits_divisor_ == 1 ? normed : normed * (1 / logits_divisor_);
}

Blocks llama_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const DecoderTables tables = decoder_tables(job, ranks->device());
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  Blocks blocks;
  blocks.push_back(std::make_unique<LlamaEmbed>(ranks, job.llama.embedding_multiplier));
  for (std::size_t node = 1; node + 1 < nodes.size(); ++node)
    blocks.push_back(std::make_unique<DecoderBlock>(job, spec.layers[node], nodes[node], tables,
                                                    spec.adapted[node], ranks));
  blocks.push_back(std::make_unique<LlamaHead>(job.model, nodes.back(), ranks, job.llama));
  return blocks;
}

}  // namespace trireme::blocks
