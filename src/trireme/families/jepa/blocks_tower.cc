#include "trireme/families/jepa/blocks_tower.h"

#include <ATen/ops/layer_norm.h>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/families/hvjepa/blocks_tower.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {

at::ScalarType statistics_type(const config::Job& job) {
  return statistics_type(comm::scalar_type(job.precision.compute));
}

at::Tensor normalised(const at::Tensor& x) {
  constexpr double kEps = 1e-5;
  return at::layer_norm(x.to(statistics_type(x.scalar_type())), {x.size(-1)}, {}, {}, kEps);
}

at::Tensor frames_apart(const at::Tensor& clips, std::int64_t tubelet) {
  const at::Tensor frames = clips.transpose(1, 2).flatten(0, 1).unsqueeze(2);
  return frames.expand({-1, -1, tubelet, -1, -1});
}

RotaryPairs rotary_pairs(const config::Vision& vision) {
  return vision.positions == config::Positions::kRotaryCompat ? RotaryPairs::kCompat
                                                              : RotaryPairs::kExact;
}

AxialRotary rows_of(const AxialRotary& table, const at::Tensor& places) {
  return {.cosines = table.cosines.index_select(0, places),
          .sines = table.sines.index_select(0, places)};
}

std::vector<at::Tensor> VideoEmbed::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  config::Vision vision = vision_;
  at::Tensor clips = inputs[0];
  if (frames_ == Frames::kApart) {
    vision.frames = vision.tubelet;
    clips = frames_apart(clips, vision.tubelet);
  }
  at::Tensor rows = patches(clips, vision).to(param(0).scalar_type());
  if (inputs.size() > 1) rows = rows.flatten(0, 1).index_select(0, inputs[1]);
  return {ops::linear(rows, param(0).flatten(1), param(1), context.weight_gradients)};
}

std::vector<at::Tensor> VideoNorm::forward(const std::vector<at::Tensor>& inputs,
                                           const exec::BlockContext& context) {
  const at::Tensor x =
      ops::layer_norm(inputs[0], param(0), param(1), eps_, context.weight_gradients);
  const at::Tensor given = gives_ == Gives::kNormalised ? normalised(x).to(x.scalar_type()) : x;
  if (segments_ == 1) return {given};
  return {given.reshape({x.size(0) / segments_, segments_ * x.size(1), x.size(2)})};
}

EncoderBlock::Look video_look(const config::Job& job, const model::PatchGrid& grid,
                              std::int64_t heads, at::Device device) {
  const config::Vision& vision = job.vision;
  return always({.rotary = axial_rotary(grid_positions(grid).to(device), vision.hidden / heads,
                                        rotary_pairs(vision), statistics_type(job))});
}

Blocks frozen_tower_blocks(const config::Job& job, const model::Encoder& encoder,
                           VideoEmbed::Frames frames, VideoNorm::Gives gives, const Ranks& ranks,
                           std::int64_t segments) {
  if (job.vision.chunked) return chunked_tower_blocks(job, encoder, frames, gives, ranks);
  const config::Vision& vision = job.vision;
  model::PatchGrid grid = model::patch_grid(vision);
  if (frames == VideoEmbed::Frames::kApart) grid.frames = 1;
  const EncoderBlock::Look look = video_look(job, grid, vision.heads, ranks->device());
  Blocks blocks;
  blocks.push_back(std::make_unique<VideoEmbed>(vision, frames, ranks));
  for (std::int64_t layer = 0; layer < vision.layers; ++layer)
    blocks.push_back(std::make_unique<EncoderBlock>(encoder, vision.norm_eps, look, ranks));
  blocks.push_back(std::make_unique<VideoNorm>(vision.norm_eps, gives, ranks, segments));
  return blocks;
}

}  // namespace trireme::blocks
