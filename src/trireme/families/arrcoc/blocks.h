// Blocks of ARR-COC; model::arrcoc_spec describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/families/arrcoc/blocks_regions.h"
#include "trireme/families/llama/blocks.h"
#include "trireme/families/vlm/blocks.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/blocks/decoder.h"

namespace trireme::blocks {

// Sizes that blocks derive from levels [b, regions].
struct RegionSizes {
  explicit RegionSizes(const config::Job& job);
  Regions regions(const at::Tensor& levels) const { return {levels, limits, grid}; }
  at::Tensor positions(const at::Tensor& levels) const {
    return regions(levels).positions(tokens, text);
  }

  Levels limits;
  std::int64_t grid;
  std::int64_t tokens;  // of a row of the decoder
  std::int64_t text;    // text tokens of these, after the most tokens that an image has
};

// Text [b, text], of which the first `asked` [b] tokens are the question -> its embedding [b, text, d], and the mean
// over the question, [b, d], without a gradient.
class Asked : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// Images, levels and, for pictures that differ in size, their sizes -> rows [rows, width]. Every region is resized to
// patch * level pixels a side and cut into patches.
class RegionEmbed : public BoundBlock {
 public:
  RegionEmbed(const config::Job& job, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), sizes_(job), patch_(job.vision.patch) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  RegionSizes sizes_;
  std::int64_t patch_;
};

// The detail gate of rows [rows, d] and shares [b, regions]. Forward returns the rows unchanged. In backward the share
// of a region above the least level gets a gradient: its rows' gradients times their difference from its rows at the
// least level, enlarged. Without a gradient of shares it does nothing.
at::Tensor detail_gate(const at::Tensor& rows, const at::Tensor& shares, const Regions& regions);

// Embedded text [b, text, d], rows [rows, d], shares and levels -> [b, tokens, d]. An image's tokens, each with the
// embedding of its level, are followed by the text and zeros.
class RegionSplice : public BoundBlock {
 public:
  RegionSplice(const config::Job& job, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), sizes_(job) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  RegionSizes sizes_;
};

// A decoder's block, with positions that follow from levels, its second input.
class RegionBlock : public DecoderBlock {
 public:
  RegionBlock(const config::Job& job, std::vector<model::Layer> layers, const plan::Node& node,
              DecoderTables tables, std::vector<int> adapted,
              const std::shared_ptr<const Across>& across)
      : DecoderBlock(job, std::move(layers), node, std::move(tables), std::move(adapted), across),
        sizes_(job) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  RegionSizes sizes_;
};

// Answers after questions. Inputs: activations, targets [b, text] and levels. Where questions are about regions, also
// the text, whose first token is the region's number; where the job charges for tokens, also each image's charge.
class RegionAnswer : public AnswerHead {
 public:
  RegionAnswer(const config::Job& job, const plan::Node& node,
               std::shared_ptr<const Across> across);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
  at::Tensor last_row(const std::vector<at::Tensor>& inputs) const override;

 protected:
  at::Tensor norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const override;

 private:
  // Rows of the text, [b, text, d], in activations [b, tokens, d].
  at::Tensor text_rows(const at::Tensor& x, const Regions& regions) const;
  void count(const Regions& regions, const at::Tensor& text, exec::Counts& counts) const;

  RegionSizes sizes_;
  bool layer_norm_, asks_regions_, learns_budget_;
};

// One a node.
Blocks arrcoc_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
