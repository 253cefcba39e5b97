#include "trireme/families/jepa_ac/blocks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/jepa_ac/model.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

// Features [samples * frames, patches, hidden] as [samples, frames, patches, hidden].
at::Tensor by_frame(const at::Tensor& features, std::int64_t frames) {
  return features.view({-1, frames, features.size(1), features.size(2)});
}

// What the predictor reads of frames: features, action and state of each through layers of their own. Inputs: features
// of real frames; what was predicted of all frames, and one roll after the other, if any; actions; states.
class ActionEmbed : public BoundBlock {
 public:
  ActionEmbed(std::int64_t all_frames, std::int64_t frames, Ranks across)
      : BoundBlock(std::move(across)), all_frames_(all_frames), frames_(frames) {}

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const auto linear = [&](const at::Tensor& x, std::size_t layer) {
      return ops::linear(x.to(param(0).scalar_type()).contiguous(), param(2 * layer),
                         param(2 * layer + 1), context.weight_gradients);
    };
    const auto condition = [&](const at::Tensor& x, std::size_t layer) {
      return linear(x.narrow(1, 0, frames_), layer).unsqueeze(2);
    };
    const at::Tensor patches = linear(frames_of(inputs), 0);
    const at::Tensor action = condition(inputs[inputs.size() - 2], 1);
    const at::Tensor state = condition(inputs.back(), 2);
    return {at::cat({action, state, patches}, 2).flatten(1, 2)};
  }

 private:
  // [samples, frames, patches, hidden]: real ones, or the first real one and then predictions.
  at::Tensor frames_of(const std::vector<at::Tensor>& inputs) const {
    const at::Tensor real = by_frame(inputs[0], all_frames_);
    if (inputs.size() == 3) return real.narrow(1, 0, frames_);
    const std::int64_t patches = real.size(2);
    std::vector<at::Tensor> frames = {real.narrow(1, 0, 1)};
    for (std::size_t i = 1; i + 2 < inputs.size(); ++i)
      frames.push_back(inputs[i].narrow(1, 0, patches).unsqueeze(1));
    return at::cat(frames, 1);
  }

  std::int64_t all_frames_, frames_;
};

// Norm and projection back to features, normalised, of the last `kept` of `frames` frames' patches.
class ActionHead : public BoundBlock {
 public:
  ActionHead(std::int64_t frames, std::int64_t kept, double norm_eps, Ranks across)
      : BoundBlock(std::move(across)), frames_(frames), kept_(kept), norm_eps_(norm_eps) {}

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const at::Tensor& x = inputs[0];
    const at::Tensor frames = x.view({x.size(0), frames_, -1, x.size(2)});
    const at::Tensor patches =
        frames.narrow(1, frames_ - kept_, kept_)
            .narrow(2, model::kConditions, frames.size(2) - model::kConditions)
            .flatten(1, 2)
            .contiguous();
    const at::Tensor normed =
        ops::layer_norm(patches, param(0), param(1), norm_eps_, context.weight_gradients);
    const at::Tensor out = ops::linear(normed, param(2), param(3), context.weight_gradients);
    return {normalised(out).to(x.scalar_type())};
  }

 private:
  std::int64_t frames_, kept_;
  double norm_eps_;
};

}  // namespace

at::Tensor action_positions(std::int64_t frames, std::int64_t rows, std::int64_t columns) {
  std::vector<at::Tensor> all;
  const at::Tensor patches =
      grid_positions({.frames = 1, .rows = rows, .columns = columns, .features = 0});
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    at::Tensor places = at::cat({at::zeros({model::kConditions, 3}, at::kLong), patches});
    places.select(1, 0).fill_(frame);
    all.push_back(places);
  }
  return at::cat(all);
}

std::vector<at::Tensor> ActionLoss::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext&) {
  const at::ScalarType type = statistics_type(inputs[0].scalar_type());
  const at::Tensor real = by_frame(inputs[0], frames_).to(type);
  const std::int64_t patches = real.size(2);
  // Of frames 1 .., by sample.
  const auto distance = [&](const at::Tensor& predicted) {
    const at::Tensor wanted = real.narrow(1, 1, predicted.size(1) / patches).flatten(1, 2);
    return (predicted.to(type) - wanted).abs().mean({1, 2});
  };
  std::vector<at::Tensor> rolled = {inputs[1].narrow(1, 0, patches)};
  rolled.insert(rolled.end(), inputs.begin() + 2, inputs.end() - 1);
  return {((distance(inputs[1]) + distance(at::cat(rolled, 1))) * inputs.back().to(type)).sum()};
}

Blocks jepa_ac_blocks(const config::Job& job, const model::ModelSpec&, const Ranks& ranks) {
  const config::Vision& vision = job.vision;
  const std::int64_t samples = job.run.micro_batch, frames = vision.frames;
  const model::PatchGrid grid = model::patch_grid(vision);
  Blocks blocks =
      frozen_tower_blocks(job, model::frame_tower(job, samples), VideoEmbed::Frames::kApart,
                          VideoNorm::Gives::kNormalised, ranks);
  const auto run = [&](std::int64_t seen, std::int64_t kept) {
    const model::Encoder encoder = model::action_encoder(job, samples, seen);
    const at::Tensor positions =
        action_positions(seen, grid.rows, grid.columns).to(ranks->device());
    const EncoderBlock::Look look =
        always({.mask = ops::Mask::block_causal(model::kConditions + grid.rows * grid.columns),
                .rotary = axial_rotary(positions, encoder.hidden / encoder.heads,
                                       rotary_pairs(vision), statistics_type(job))});
    blocks.push_back(std::make_unique<ActionEmbed>(frames, seen, ranks));
    for (std::int64_t layer = 0; layer < job.action.layers; ++layer)
      blocks.push_back(std::make_unique<EncoderBlock>(encoder, vision.norm_eps, look, ranks));
    blocks.push_back(std::make_unique<ActionHead>(seen, kept, vision.norm_eps, ranks));
  };
  run(frames - 1, frames - 1);
  for (std::int64_t roll = 2; roll <= job.action.rollout; ++roll) run(roll, 1);
  blocks.push_back(std::make_unique<ActionLoss>(frames));
  return blocks;
}

}  // namespace trireme::blocks
