// Suffixes: b sample, t token, d width, r row, v vocabulary.
#include "trireme/families/vlm/blocks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/families/vit/blocks_tower.h"
#include "trireme/families/vlm/blocks_gated_cross.h"
#include "trireme/families/vlm/blocks_projector.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/model.h"
#include "trireme/model/blocks/decoder.h"
#include "trireme/model/blocks/mrope.h"
#include "trireme/model/blocks/tower_features.h"
#include "trireme/ops/embedding.h"

namespace trireme::blocks {

namespace {

// The row at each token, of rows [tiles, tile_tokens, d], or the first row for a token without one.
at::Tensor standing(const at::Tensor& rows, const at::Tensor& visual) {
  return rows.flatten(0, 1)
      .index_select(0, visual.clamp_min(0).flatten())
      .view({visual.size(0), visual.size(1), rows.size(2)});
}

}  // namespace

std::vector<at::Tensor> Splice::forward(const std::vector<at::Tensor>& inputs,
                                        const exec::BlockContext& context) {
  const at::Tensor& visual = inputs[1];
  at::Tensor x_btd = ops::embedding(inputs[0], param(0), across().first_id(), tp());
  x_btd = at::where((visual >= 0).unsqueeze(2), standing(inputs[2], visual), x_btd);
  if (params() > 1)
    x_btd = at::where((visual == kNewline).unsqueeze(2), param(1).view({1, 1, -1}), x_btd);
  return {x_btd};
}

std::vector<at::Tensor> Seen::forward(const std::vector<at::Tensor>& inputs,
                                      const exec::BlockContext& context) {
  const at::Tensor &x_btd = inputs[0], &visual = inputs[1];
  const at::Tensor more = x_btd + standing(inputs[2], visual);
  return {at::where((visual >= 0).unsqueeze(2), more, x_btd)};
}

std::vector<at::Tensor> AnswerHead::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  if (context.counts != nullptr) {
    at::NoGradGuard no_grad;
    count(inputs[0], inputs[1], *context.counts);
  }
  return LlamaHead::forward(inputs, context);
}

void AnswerHead::count(const at::Tensor& x, const at::Tensor& targets, exec::Counts& counts) const {
  const at::Tensor rows = (targets.flatten() != ops::kNoTarget).nonzero().squeeze(1);
  if (rows.numel() == 0) return;  // on every tp rank
  const at::Tensor good = right(x.detach().flatten(0, 1).index_select(0, rows),
                                targets.flatten().index_select(0, rows));
  const at::Tensor sample = rows.div(targets.size(1), "floor");
  const at::Tensor ends =
      (targets.flatten().index_select(0, rows) == end_)
          .logical_or(sample != at::cat({sample.slice(0, 1), sample.new_full({1}, -1)}))
          .to(at::kLong);
  const at::Tensor answer = ends.cumsum(0) - ends;  // how many have ended before
  const auto sum = [](const at::Tensor& values) {
    return static_cast<double>(values.sum().item<std::int64_t>());
  };
  const at::Tensor wrong = at::zeros({rows.numel()}, rows.options())
                               .index_add(0, answer, good.logical_not().to(at::kLong));
  counts.add(0, sum(ends.logical_and(wrong.index_select(0, answer) == 0)), sum(ends));
  counts.add(1, sum(good), static_cast<double>(rows.numel()));
}

at::Tensor AnswerHead::right(const at::Tensor& x, const at::Tensor& targets) const {
  const at::Tensor logits_rv = logits(x);
  const std::int64_t own = logits_rv.size(1);
  const at::Tensor place = targets - across().first_id();
  const at::Tensor here = (place >= 0).logical_and(place < own);
  const at::Tensor wanted = logits_rv.gather(1, place.clamp(0, own - 1).unsqueeze(1)).squeeze(1);
  const at::Tensor none = at::full_like(wanted, -std::numeric_limits<double>::infinity());
  const at::Tensor largest = at::stack({logits_rv.amax(1), at::where(here, wanted, none)});
  if (tp().size() > 1) tp().group->all_reduce(comm::buffer(largest), comm::Reduce::kMax).wait();
  return largest[1] >= largest[0];
}

namespace {

Blocks tiles_tower_blocks(const config::Job& job, const model::Encoder& encoder,
                          const Ranks& ranks) {
  const config::Vision& vision = job.vision;
  const EncoderBlock::Look look = tower_look(vision, job.precision.compute, ranks->device());
  Blocks blocks;
  blocks.push_back(std::make_unique<PatchEmbed>(vision, ranks));
  for (std::int64_t layer = 0; layer < config::blocks_read(job); ++layer)
    blocks.push_back(std::make_unique<EncoderBlock>(encoder, vision.norm_eps, look, ranks));
  for (std::size_t i = 0; i < config::deepstack_layers(job).size(); ++i)
    blocks.push_back(std::make_unique<Projector>(job, false, ranks, true));
  return blocks;
}

}  // namespace

Blocks vlm_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const model::Encoder encoder = model::tower(job.vision, model::expected_tiles(job));
  const DecoderTables tables = decoder_tables(job, ranks->device());
  Blocks blocks = model::sees_clips(job)
                      ? frozen_tower_blocks(job, encoder, VideoEmbed::Frames::kTogether,
                                            VideoNorm::Gives::kFeatures, ranks)
                      : tiles_tower_blocks(job, encoder, ranks);
  blocks.push_back(std::make_unique<Projector>(job, config::reads_last(job), ranks));
  if (config::crosses(job))
    blocks.push_back(std::make_unique<LlamaEmbed>(ranks));
  else
    blocks.push_back(std::make_unique<Splice>(ranks));
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  while (blocks.size() + 1 < nodes.size()) {
    const std::size_t node = blocks.size();
    if (nodes[node].name.starts_with("seen."))
      blocks.push_back(std::make_unique<Seen>(ranks));
    else if (nodes[node].name.starts_with("cross."))
      blocks.push_back(std::make_unique<GatedCross>(ranks));
    else
      blocks.push_back(std::make_unique<DecoderBlock>(job, spec.layers[node], nodes[node], tables,
                                                      spec.adapted[node], ranks));
  }
  blocks.push_back(std::make_unique<AnswerHead>(job.model, nodes.back(), ranks, job.vlm.tokens[1]));
  std::size_t tower = 0;
  while (nodes[tower].name.starts_with("vision.")) ++tower;
  keep_features(job, tower, ranks, blocks);
  return blocks;
}

}  // namespace trireme::blocks
