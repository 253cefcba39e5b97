#include "trireme/families/jepa/blocks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/std.h>

#include <utility>

#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/jepa/model.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

std::vector<std::int64_t> numbers(const at::Tensor& bounds) {
  const at::Tensor own = bounds.to(at::kCPU, at::kLong).contiguous();
  return {own.data_ptr<std::int64_t>(), own.data_ptr<std::int64_t>() + own.numel()};
}

template <typename T>
at::Tensor tensor_of(const std::vector<T>& values, at::ScalarType type, at::Device device) {
  const at::Tensor own = at::empty({static_cast<std::int64_t>(values.size())}, type);
  std::copy(values.begin(), values.end(), own.data_ptr<T>());
  return own.to(device);
}

Packing packing_of(const std::vector<at::Tensor>& inputs, std::size_t first) {
  return {inputs[first], inputs[first + 1], inputs[first + 2], inputs[first + 3]};
}

// Rows of sequences with these bounds, each at its token's place.
EncoderBlock::Look packed_look(
    AxialRotary table,
    std::function<std::pair<at::Tensor, at::Tensor>(const std::vector<at::Tensor>&)>
        tokens_and_bounds) {
  return made_once([table = std::move(table), tokens_and_bounds = std::move(tokens_and_bounds)](
                       const std::vector<at::Tensor>& inputs) {
    const auto [tokens, bounds] = tokens_and_bounds(inputs);
    return packed_sight(rows_of(table, tokens.remainder(table.cosines.size(0))), bounds);
  });
}

}  // namespace

Sight packed_sight(const AxialRotary& rotary, const at::Tensor& bounds) {
  return {.mask = ops::Mask::full(ops::documents_of_lengths(bounds, 1, rotary.cosines.size(0))),
          .rotary = rotary};
}

std::vector<at::Tensor> PredictorEmbed::forward(const std::vector<at::Tensor>& inputs,
                                                const exec::BlockContext& context) {
  const Packing packing = pack_(inputs, 1);
  const at::Tensor seen = ops::linear(inputs[0], param(0), param(1), context.weight_gradients);
  std::vector<at::Tensor> tokens;
  for (std::size_t index = kToken; index < params(); ++index)
    tokens.push_back(param(index).flatten(0, 1));
  // A single token is every mask's.
  const at::Tensor which = packing.target_masks.remainder(static_cast<std::int64_t>(tokens.size()));
  const at::Tensor unseen = at::cat(tokens).index_select(0, which);
  return {at::cat({seen, unseen}).index_select(0, packing.order)};
}

at::Tensor PredictionLoss::distance(const at::Tensor& rows, const Packing& packing,
                                    const at::Tensor& wanted,
                                    const exec::BlockContext& context) const {
  const at::Tensor normed = ops::layer_norm(rows.index_select(0, packing.target_rows), param(0),
                                            param(1), norm_eps_, context.weight_gradients);
  const at::Tensor predicted = ops::linear(normed, param(2), param(3), context.weight_gradients);
  const at::Tensor exact = normalised(wanted);
  const at::Tensor distances = (predicted.to(exact.scalar_type()) - exact).abs().mean(-1);
  return (distances * packing.target_weights.to(distances.scalar_type())).sum();
}

Packing::Packing(const at::Tensor& context, const at::Tensor& context_bounds,
                 const at::Tensor& targets, const at::Tensor& target_bounds) {
  const std::vector<std::int64_t> seen = numbers(context_bounds), unseen = numbers(target_bounds);
  std::vector<std::int64_t> from, rows, masks;
  std::vector<std::int32_t> ends = {0};
  std::vector<double> weights;
  for (std::size_t s = 0; s + 1 < seen.size(); ++s) {
    for (std::int64_t i = seen[s]; i < seen[s + 1]; ++i) from.push_back(i);
    for (std::int64_t i = unseen[s]; i < unseen[s + 1]; ++i) {
      rows.push_back(static_cast<std::int64_t>(from.size()));
      from.push_back(context.size(0) + i);
      masks.push_back(static_cast<std::int64_t>(s) % model::kMasks);
      weights.push_back(1.0 / static_cast<double>(model::kMasks * (unseen[s + 1] - unseen[s])));
    }
    ends.push_back(static_cast<std::int32_t>(from.size()));
  }
  const at::Device device = context.device();
  order = tensor_of(from, at::kLong, device);
  tokens = at::cat({context, targets}).index_select(0, order);
  bounds = tensor_of(ends, at::kInt, device);
  target_rows = tensor_of(rows, at::kLong, device);
  target_masks = tensor_of(masks, at::kLong, device);
  target_weights = tensor_of(weights, at::kDouble, device);
}

std::vector<at::Tensor> JepaLoss::forward(const std::vector<at::Tensor>& inputs,
                                          const exec::BlockContext& context) {
  const at::Tensor& features = inputs[1];
  if (context.counts != nullptr) {
    // Samples that only fill up a batch have no targets.
    const at::Tensor there =
        (inputs[5].diff().view({-1, model::kMasks}) > 0).all(1).nonzero().flatten();
    if (const auto samples = static_cast<double>(there.size(0)); samples > 0) {
      const at::Tensor tokens =
          features.index_select(0, there).flatten(0, 1).to(statistics_type(features.scalar_type()));
      context.counts->add(0, samples * at::std(tokens, /*dim=*/0).mean().item<double>(), samples);
    }
  }
  const at::Tensor wanted = features.flatten(0, 1).index_select(0, inputs[4]);
  return {distance(inputs[0], packing_of(inputs, 2), wanted, context)};
}

Blocks jepa_blocks(const config::Job& job, const model::ModelSpec&, const Ranks& ranks) {
  const config::Vision& vision = job.vision;
  const std::int64_t samples = job.run.micro_batch;
  const model::Encoder student = model::student_encoder(job, samples);
  const model::Encoder predictor = model::predictor_encoder(job, samples);
  const model::PatchGrid grid = model::patch_grid(vision);
  const auto table = [&](std::int64_t head_dim) {
    return axial_rotary(grid_positions(grid).to(ranks->device()), head_dim, rotary_pairs(vision),
                        statistics_type(job));
  };
  const EncoderBlock::Look seen = packed_look(
      table(vision.hidden / vision.heads),
      [](const std::vector<at::Tensor>& inputs) { return std::pair(inputs[1], inputs[2]); });
  const EncoderBlock::Look joined = packed_look(table(job.jepa.hidden / job.jepa.heads),
                                                [](const std::vector<at::Tensor>& inputs) {
                                                  const Packing packing = packing_of(inputs, 1);
                                                  return std::pair(packing.tokens, packing.bounds);
                                                });
  // The predictor is every tp rank's own.
  const Ranks alone = Across::without_tp(ranks);
  Blocks teacher =
      frozen_tower_blocks(job, model::tower(vision, samples), VideoEmbed::Frames::kTogether,
                          VideoNorm::Gives::kFeatures, ranks);
  Blocks blocks;
  const auto add = [&](std::unique_ptr<exec::Block> own) {
    blocks.push_back(std::move(own));
    blocks.push_back(std::move(teacher[blocks.size() / 2]));
  };
  add(std::make_unique<VideoEmbed>(vision, VideoEmbed::Frames::kTogether, ranks));
  for (std::int64_t layer = 0; layer < vision.layers; ++layer)
    add(std::make_unique<EncoderBlock>(student, vision.norm_eps, seen, ranks));
  add(std::make_unique<VideoNorm>(vision.norm_eps, VideoNorm::Gives::kFeatures, ranks));
  blocks.push_back(std::make_unique<PredictorEmbed>(packing_of, alone));
  for (std::int64_t layer = 0; layer < job.jepa.layers; ++layer)
    blocks.push_back(std::make_unique<EncoderBlock>(predictor, vision.norm_eps, joined, alone));
  blocks.push_back(std::make_unique<JepaLoss>(vision.norm_eps, alone));
  return blocks;
}

}  // namespace trireme::blocks
