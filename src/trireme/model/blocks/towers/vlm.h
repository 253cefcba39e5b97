// Blocks of vision-language models; model::vlm_spec describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/blocks/llama.h"

namespace trireme::blocks {

// What `visual` says of a token, where no projected row stands there.
inline constexpr std::int64_t kEmbedded = -1;
inline constexpr std::int64_t kNewline = -2;

// Tokens [samples, tokens], which row of the projected tokens stands at each, and these, [tiles, tile_tokens, d] ->
// [samples, tokens, d]. Rows that stand nowhere, such as those of a blank tile, get a gradient of zero.
class Splice : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// DeepStack: x [samples, tokens, d], which row stands at each token, and these, [tiles, tile_tokens, d]: x with the rows
// added where they stand.
class Seen : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// Llama's, and counts answers, which an end token or their row ends, and tokens that are right: those whose logit no
// other exceeds.
class AnswerHead : public LlamaHead {
 public:
  using LlamaHead::LlamaHead;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 protected:
  // Of rows x [rows, d] with their targets.
  at::Tensor right(const at::Tensor& x, const at::Tensor& targets) const;

 private:
  void count(const at::Tensor& x, const at::Tensor& targets, exec::Counts& counts) const;
};

// One a node.
Blocks vlm_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
