// Blocks of ARR-COC; arch::arrcoc_spec describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"
#include "trireme/models/llama.h"
#include "trireme/models/regions.h"
#include "trireme/models/vlm.h"

namespace trireme::models {

// What blocks know of levels [b, regions].
struct RegionSizes {
  explicit RegionSizes(const config::Job& job);
  Regions regions(const at::Tensor& levels) const { return {levels, limits, grid}; }

  Levels limits;
  std::int64_t grid;
  std::int64_t tokens;  // of a row of the decoder
};

// Question, int64 [b], -> its embedding [b, d], and the same without a gradient.
class Asked : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// Images and levels -> rows [rows, width]: every region is shrunk by areas or enlarged to patch * level pixels a side and
// cut into patches.
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

// The detail gate, of rows [rows, d] and shares [b, regions]: forward the rows as they are; backward the share of a
// region above the least level gets the product of its rows' gradients with what they differ by from its rows at the
// least level, enlarged. Without a gradient of shares it is nothing.
at::Tensor detail_gate(const at::Tensor& rows, const at::Tensor& shares, const Regions& regions);

// Embedded question [b, d], rows [rows, d], shares and levels -> [b, tokens, d]: an image's tokens, each with the embedding of its level,
// the question, and zeros.
class RegionSplice : public BoundBlock {
 public:
  RegionSplice(const config::Job& job, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), sizes_(job) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  RegionSizes sizes_;
};

// Llama's, with positions that follow from levels, its second input.
class RegionDecoderBlock : public LlamaBlock {
 public:
  RegionDecoderBlock(const config::Job& job, const plan::Node& node, ops::RotaryTable rotary,
                     std::vector<int> adapted, std::shared_ptr<const Across> across)
      : LlamaBlock(job, node, std::move(rotary), std::move(adapted), std::move(across)),
        sizes_(job) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  RegionSizes sizes_;
};

// The answer behind the question. Inputs: activations, answer [b, 1], question [b] and levels.
class RegionAnswer : public AnswerHead {
 public:
  RegionAnswer(const config::Job& job, const plan::Node& node, std::shared_ptr<const Across> across)
      : AnswerHead(job.model, node, std::move(across)), sizes_(job) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  RegionSizes sizes_;
};

// One a node.
Blocks arrcoc_blocks(const config::Job& job, const arch::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::models
