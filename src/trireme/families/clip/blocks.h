// Blocks of family clip; families/clip/model.h describes it.
#pragma once

#include "trireme/families/vit/blocks_tower.h"

namespace trireme::blocks {

// Tokens [samples, tokens, d] -> features [samples, width].
class ImageFeatures : public TowerHead {
 public:
  using TowerHead::TowerHead;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// Tokens, int64 [samples, tokens], plus learned positions -> [samples, tokens, d].
class TextEmbed : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// [samples, tokens, d] and the places of last tokens, int64 [samples] -> features [samples, width]. A negative place marks
// a sample that only fills up a held-out batch: its feature is 0.
class TextFeatures : public BoundBlock {
 public:
  TextFeatures(double norm_eps, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), norm_eps_(norm_eps) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  double norm_eps_;
};

// The losses of this rank's samples against those of all data-parallel ranks: forward and backward are collective. clip
// gathers features, siglip passes captions round (siglip.h). With x and t features of length 1, of images and captions:
// - clip: half of the cross-entropies of exp(s) x t^T over rows and over columns (Radford et al. 2021);
// - siglip: -log sigmoid(y (exp(s) x t^T + b)) over all pairs, y = 1 for a pair and -1 for others (Zhai et al. 2023).
// Inputs: features [samples, width]. A sample whose caption has feature 0 has no loss and is no negative of other
// samples. Counts images whose own caption is the nearest of all.
class ContrastiveLoss : public BoundBlock {
 public:
  ContrastiveLoss(config::ContrastiveLoss loss, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), loss_(loss) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

  // Score of every image and every caption, [images, captions]: clip takes the softmax of it, siglip the sigmoid.
  at::Tensor scores(const at::Tensor& images, const at::Tensor& captions) const;
  config::ContrastiveLoss loss() const { return loss_; }

 private:
  at::Tensor clip(const at::Tensor& images, const at::Tensor& captions,
                  const exec::BlockContext& context) const;
  at::Tensor siglip(const at::Tensor& images, const at::Tensor& captions,
                    const exec::BlockContext& context) const;
  // Which of all columns is each row's own.
  at::Tensor partners(const at::Tensor& logits) const;
  // Counts the images here with a caption whose own caption is the nearest of all.
  static void count(std::int64_t right, const at::Tensor& captions,
                    const exec::BlockContext& context);

  config::ContrastiveLoss loss_;
};

// One a node.
Blocks clip_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
