// Blocks of the encoder of V-JEPA 2; families/jepa/model_tower.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// A job's compute type in that sense.
at::ScalarType statistics_type(const config::Job& job);

// (x - mean) / sqrt(variance + 1e-5) over the last dim, without gain or bias, in the statistics type.
at::Tensor normalised(const at::Tensor& x);

// Each frame of clips [samples, 3, frames, ..] as a clip of `tubelet` frames: [samples * frames, 3, tubelet, ..].
at::Tensor frames_apart(const at::Tensor& clips, std::int64_t tubelet);

RotaryPairs rotary_pairs(const config::Vision& vision);
// The rows of a table, [rows of `places`, head_dim]; places int64.
AxialRotary rows_of(const AxialRotary& table, const at::Tensor& places);

// Patches through a linear layer. Inputs: clips; in a second one, int64, which tokens of all the clips' are wanted: the
// result is [these, hidden], else [clips, tokens, hidden].
class VideoEmbed : public BoundBlock {
 public:
  enum class Frames { kTogether, kApart };
  VideoEmbed(const config::Vision& vision, Frames frames, Ranks across)
      : BoundBlock(std::move(across)), vision_(vision), frames_(frames) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  config::Vision vision_;
  Frames frames_;
};

// LayerNorm, followed for targets by `normalised`. The tokens of `segments` sequences become those of one.
class VideoNorm : public BoundBlock {
 public:
  enum class Gives { kFeatures, kNormalised };
  VideoNorm(double eps, Gives gives, Ranks across, std::int64_t segments = 1)
      : BoundBlock(std::move(across)), eps_(eps), gives_(gives), segments_(segments) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  double eps_;
  Gives gives_;
  std::int64_t segments_;
};

// Visibility between all tokens of a clip, as wide as the tower, in blocks of so many heads.
EncoderBlock::Look video_look(const config::Job& job, const model::PatchGrid& grid,
                              std::int64_t heads, at::Device device);

// The nodes of model::frozen_tower, in order.
Blocks frozen_tower_blocks(const config::Job& job, const model::Encoder& encoder,
                           VideoEmbed::Frames frames, VideoNorm::Gives gives, const Ranks& ranks,
                           std::int64_t segments = 1);

}  // namespace trireme::blocks
