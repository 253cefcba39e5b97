// Blocks of vision-language models; model::vlm_spec describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "trireme/config/job.h"
#include "trireme/families/llama/blocks.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Value of `visual` for a token that has an embedding instead of a projected row.
inline constexpr std::int64_t kEmbedded = -1;
inline constexpr std::int64_t kNewline = -2;

// Tokens [samples, tokens], the index of the projected row at each, and these rows, [tiles, tile_tokens, d] ->
// [samples, tokens, d]. Rows without a token, such as those of a blank tile, get a gradient of zero.
class Splice : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// DeepStack: from x [samples, tokens, d], the index of the row at each token, and these rows, [tiles, tile_tokens, d]
// to x plus the rows at their tokens.
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
  AnswerHead(const config::Model& model, const plan::Node& node,
             std::shared_ptr<const Across> across, std::int64_t end)
      : LlamaHead(model, node, std::move(across)), end_(end) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 protected:
  // Counts correct rows of x [rows, d] with their targets.
  at::Tensor right(const at::Tensor& x, const at::Tensor& targets) const;

 private:
  void count(const at::Tensor& x, const at::Tensor& targets, exec::Counts& counts) const;

  std::int64_t end_;
};

// One a node.
Blocks vlm_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
