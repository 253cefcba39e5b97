// Nodes before and after the blocks of an image tower; families/vit/model_tower.h describes it.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Tokens [samples, tokens, d] of clips, float [samples, 3, frames, image, image], or of images, which fill a tubelet. A
// linear layer of patches, then class token, positions and norm where the tower has them.
class PatchEmbed : public BoundBlock {
 public:
  PatchEmbed(const config::Vision& vision, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), vision_(vision) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  config::Vision vision_;
};

// A tower's last node. Its parameters are pooling's, then those of its own.
class TowerHead : public BoundBlock {
 public:
  TowerHead(const config::Vision& vision, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), vision_(vision) {}

 protected:
  // Pools tokens [samples, tokens, d] after the last norm to one feature each, [samples, d]; the same on every tp rank.
  at::Tensor pooled(const at::Tensor& x_btd, const exec::BlockContext& context) const;
  // A parameter of the head's own; whether it has as many.
  const at::Tensor& own(std::size_t index) const { return param(pool_params() + index); }
  bool has_own() const { return params() > pool_params(); }

 private:
  std::size_t pool_params() const;
  at::Tensor attended(const at::Tensor& normed_btd, const exec::BlockContext& context) const;

  config::Vision vision_;
};

// A learned table of `from` x `from` positions, [from * from, d], interpolated bilinearly to `to` x `to` places with
// the same corners: [to * to, d].
at::Tensor resampled(const at::Tensor& table, std::int64_t from, std::int64_t to);

// Visibility between the tokens of a clip: all see all, with rotary positions where the tower has these.
EncoderBlock::Look tower_look(const config::Vision& vision, DType compute, at::Device device);

// Embedding and blocks of a tower whose nodes begin with the first.
void add_tower(const config::Job& job, const Ranks& ranks, Blocks& blocks);

}  // namespace trireme::blocks
