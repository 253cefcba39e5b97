// Llama's blocks; model::llama_spec describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/config/layer_attention.h"
#include "trireme/model/blocks/adapters.h"
#include "trireme/model/blocks/mrope.h"
#include "trireme/model/blocks/spread.h"
#include "trireme/ops/pointwise.h"

namespace trireme::blocks {

// [samples, tokens] -> [samples, tokens, d] as between parallel regions (ops/tensor_parallel.h).
class LlamaEmbed : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// x + attention(norm(x)) with the layer's window, queries and keys rotated where it rotates them, biases and norms of
// these where the job says so, then x + swiglu(norm(x)). A second input is the positions of tokens: within documents,
// [samples, tokens], or of M-RoPE, [samples, tokens, 3], or both, [samples, tokens, 4].
class LlamaBlock : public AdaptedBlock, public RowWise {
 public:
  // `rotary` serves at least model.seq_len positions; `adapted` as AdaptedBlock's.
  LlamaBlock(const config::Job& job, const config::LayerAttention& attends, const plan::Node& node,
             ops::RotaryTable rotary, std::vector<int> adapted,
             std::shared_ptr<const Across> across)
      : AdaptedBlock(job.lora, std::move(adapted), std::move(across)),
        kept_(node),
        norm_eps_(job.model.norm_eps),
        attends_(attends),
        rotary_(std::move(rotary)),
        qkv_bias_(job.model.qkv_bias),
        qk_norm_(job.model.qk_norm),
        axes_(frequency_axes(job)) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  // Of queries, keys and values of a node with these inputs; with `past`, of rows that follow others.
  ops::Operand attend(const std::vector<ops::Operand>& qkv, const std::vector<at::Tensor>& inputs,
                      const ops::WeightGradientsPtr& gradients, exec::Past* past) const;
  ops::RotaryTable table(const at::Tensor& positions, const ops::ContextParallel& cp) const;
  // [samples, tokens], places within documents; undefined: sequences are one.
  at::Tensor within(const at::Tensor& positions) const;
  // Parameters after those of every block: biases of queries, keys and values, undefined where there are none, and
  // gains of the first two.
  at::Tensor bias(std::size_t of) const;
  const at::Tensor& gain(std::size_t of) const;
  // [samples, tokens, heads * head_dim]
  at::Tensor head_norm(const at::Tensor& x, std::size_t of,
                       const ops::WeightGradientsPtr& gradients) const;

  Kept kept_;
  double norm_eps_;
  config::LayerAttention attends_;
  ops::RotaryTable rotary_;
  bool qkv_bias_;
  bool qk_norm_;
  at::Tensor axes_;  // of M-RoPE
};

class LlamaHead : public LanguageHead {
 public:
  using LanguageHead::LanguageHead;

 protected:
  at::Tensor norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const override;
};

// One a node.
Blocks llama_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
