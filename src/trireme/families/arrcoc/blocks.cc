// Suffixes: b sample, p region, t token, r row, d width.
#include "trireme/families/arrcoc/blocks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "trireme/config/rope.h"
#include "trireme/families/arrcoc/blocks_pictures.h"
#include "trireme/families/arrcoc/blocks_scorers.h"
#include "trireme/families/arrcoc/keys_checks.h"
#include "trireme/families/arrcoc/model.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/families/vlm/blocks_projector.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

// [n, 3, level * patch, level * patch] -> [n * level * level, 3 * patch * patch].
at::Tensor cut(const at::Tensor& x, std::int64_t level, std::int64_t patch) {
  return x.reshape({x.size(0), 3, level, patch, level, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({x.size(0) * level * level, 3 * patch * patch});
}

// What tokens of a micro-batch's packed regions see: those of their region at its level.
EncoderBlock::Look within_regions(const config::Job& job) {
  const RegionSizes sizes(job);
  const std::int64_t head_dim = job.vision.hidden / job.vision.heads;
  return [=](const std::vector<at::Tensor>& inputs) {
    const Regions regions = sizes.regions(inputs[1]);
    const at::Device device = inputs[0].device();
    const at::Tensor places = regions.places().to(device);
    return Sight{.mask = ops::Mask::full(
                     ops::documents_of_lengths(regions.starts().to(device), 1, places.size(0))),
                 .rotary = axial_rotary(places, head_dim, RotaryPairs::kExact,
                                        statistics_type(inputs[0].scalar_type()))};
  };
}

// The decoder's frequencies at positions in parts of a token.
ops::RotaryTable fine_table(const config::Job& job) {
  const std::int64_t last =
      Regions::kFraction * (job.arrcoc.grid * job.arrcoc.most + config::text_tokens(job));
  config::Rope rope = config::rope_of(job.model);
  for (double& frequency : rope.frequencies) frequency /= Regions::kFraction;
  return ops::rotary_table(last + 1, rope.frequencies, rope.amplitude,
                           job.precision.compute == DType::kF64 ? at::kDouble : at::kFloat);
}

}  // namespace

RegionSizes::RegionSizes(const config::Job& job)
    : limits(levels_of(job.arrcoc)),
      grid(job.arrcoc.grid),
      tokens(job.model.seq_len),
      text(config::text_tokens(job)) {}

std::vector<at::Tensor> Asked::forward(const std::vector<at::Tensor>& inputs,
                                       const exec::BlockContext& context) {
  const at::Tensor x_btd = ops::embedding(inputs[0], param(0), across().first_id(), tp());
  at::NoGradGuard no_grad;
  const at::Tensor count = inputs[1].unsqueeze(1);
  const at::Tensor asked = (at::arange(x_btd.size(1), count.options()) < count).unsqueeze(2);
  const at::Tensor sum = at::where(asked, x_btd, at::zeros({}, x_btd.options()))
                             .to(statistics_type(x_btd.scalar_type()))
                             .sum(1);
  return {x_btd, (sum / count).to(x_btd.scalar_type())};
}

std::vector<at::Tensor> RegionEmbed::forward(const std::vector<at::Tensor>& inputs,
                                             const exec::BlockContext& context) {
  const Regions regions = sizes_.regions(inputs[1]);
  const Pictures pictures(inputs[0].to(statistics_type(param(0).scalar_type())) * 2 - 1,
                          inputs.size() > 2 ? inputs[2] : at::Tensor(), sizes_.grid);
  const std::int64_t least = sizes_.limits.least;
  std::vector<at::Tensor> rows = {cut(pictures.seen(least * patch_), least, patch_)};
  for (const Regions::Group& group : regions.groups())
    rows.push_back(cut(pictures.seen(group.regions, group.level * patch_), group.level, patch_));
  const at::Tensor patches = at::cat(rows, 0).to(param(0).scalar_type());
  return {ops::linear(patches, param(0), param(1), context.weight_gradients)};
}

at::Tensor detail_gate(const at::Tensor& rows, const at::Tensor& shares, const Regions& regions) {
  if (!shares.requires_grad() || regions.groups().empty()) return rows;
  const at::Tensor seen = rows.detach();
  const std::int64_t d = rows.size(1), all = shares.numel(), least = regions.least();
  const at::Tensor base =
      seen.narrow(0, 0, regions.base_rows()).view({all, least, least, d}).permute({0, 3, 1, 2});
  const at::Tensor steps = (shares - shares.detach()).flatten();  // 0, with shares' gradient
  std::vector<at::Tensor> gated = {rows.narrow(0, 0, regions.base_rows())};
  for (const Regions::Group& group : regions.groups()) {
    const at::Tensor chosen = group.regions.to(rows.device());
    const at::Tensor raised =
        at::upsample_bilinear2d(
            base.index_select(0, chosen).to(statistics_type(rows.scalar_type())),
            {group.level, group.level}, false)
            .permute({0, 2, 3, 1})
            .reshape({group.rows(), d})
            .to(rows.scalar_type());
    const at::Tensor step =
        steps.index_select(0, chosen).repeat_interleave(group.level * group.level).unsqueeze(1);
    const at::Tensor detail = seen.narrow(0, group.first_row, group.rows()) - raised;
    gated.push_back(rows.narrow(0, group.first_row, group.rows()) + step * detail);
  }
  return at::cat(gated, 0);
}

std::vector<at::Tensor> RegionSplice::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  const at::Tensor &rows_rd = inputs[1], &shares = inputs[2];
  const Regions regions = sizes_.regions(inputs[3]);
  const at::Device device = rows_rd.device();
  const at::Tensor levels_rd = param(0).index_select(0, regions.row_levels().to(device));
  const at::Tensor tokens_rd = detail_gate(rows_rd, shares, regions) + levels_rd;
  const at::Tensor slots = regions.slots(sizes_.tokens).to(device);
  const at::Tensor seen = tokens_rd.index_select(0, slots.clamp_min(0).flatten())
                              .view({slots.size(0), slots.size(1), -1});
  const at::Tensor place =
      at::arange(sizes_.tokens, slots.options()) - regions.tokens().to(device).unsqueeze(1);
  const at::Tensor text = inputs[0].gather(
      1, place.clamp(0, sizes_.text - 1).unsqueeze(2).expand({-1, -1, inputs[0].size(2)}));
  const at::Tensor rest = at::where((place < sizes_.text).unsqueeze(2), text, at::zeros_like(text));
  return {at::where((slots >= 0).unsqueeze(2), seen, rest)};
}

std::vector<at::Tensor> RegionBlock::forward(const std::vector<at::Tensor>& inputs,
                                             const exec::BlockContext& context) {
  const at::Tensor positions = sizes_.positions(inputs[1]).to(inputs[0].device());
  return DecoderBlock::forward({inputs[0], positions}, context);
}

RegionAnswer::RegionAnswer(const config::Job& job, const plan::Node& node,
                           std::shared_ptr<const Across> across)
    : AnswerHead(job.model, node, std::move(across), config::kEndToken),
      sizes_(job),
      layer_norm_(job.arrcoc.decoder == config::RegionDecoder::kGpt),
      asks_regions_(config::asks_regions(job)),
      learns_budget_(job.arrcoc.learn_budget) {}

at::Tensor RegionAnswer::norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const {
  return layer_norm_ ? ops::layer_norm(x, param(0), param(1), norm_eps(), gradients)
                     : LlamaHead::norm(x, gradients);
}

at::Tensor RegionAnswer::text_rows(const at::Tensor& x, const Regions& regions) const {
  const at::Tensor first = regions.tokens().to(x.device()).unsqueeze(1);
  const at::Tensor places = first + at::arange(sizes_.text, first.options());
  return x.gather(1, places.unsqueeze(2).expand({-1, -1, x.size(2)}));
}

void RegionAnswer::count(const Regions& regions, const at::Tensor& text,
                         exec::Counts& counts) const {
  const auto images = static_cast<double>(regions.images());
  const auto sum = [](const at::Tensor& tokens) {
    return static_cast<double>(tokens.sum().item<std::int64_t>());
  };
  counts.add(2, sum(asks_regions_ ? regions.tokens_of(text.select(1, 0)) : regions.most()), images);
  if (learns_budget_) counts.add(3, sum(regions.tokens()), images);
}

std::vector<at::Tensor> RegionAnswer::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  const at::Tensor& targets = inputs[1];
  const Regions regions = sizes_.regions(inputs[2]);
  if (context.counts != nullptr)
    count(regions, asks_regions_ ? inputs[3] : at::Tensor(), *context.counts);
  at::Tensor loss = AnswerHead::forward({text_rows(inputs[0], regions), targets}, context)[0];
  if (inputs.size() > (asks_regions_ ? 4U : 3U)) {
    const at::Tensor answers = (targets != ops::kNoTarget).sum(1);
    loss = loss + (inputs.back().to(loss.scalar_type()) * answers).sum();
  }
  return {loss};
}

// Of the first sample, where its last target is predicted.
at::Tensor RegionAnswer::last_row(const std::vector<at::Tensor>& inputs) const {
  const at::Tensor last = (inputs[1][0] != ops::kNoTarget).nonzero().max();
  return text_rows(inputs[0], sizes_.regions(inputs[2]))[0][last.item<std::int64_t>()];
}

Blocks arrcoc_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const ops::RotaryTable rotary = fine_table(job).to(ranks->device());
  const EncoderBlock::Look look = within_regions(job);
  Blocks blocks;
  blocks.push_back(std::make_unique<Asked>(ranks));
  blocks.push_back(std::make_unique<Scorers>(job, spec.program.nodes[1], ranks));
  blocks.push_back(std::make_unique<RegionEmbed>(job, ranks));
  for (std::int64_t layer = 0; layer < job.vision.layers; ++layer)
    blocks.push_back(
        std::make_unique<EncoderBlock>(model::region_tower(job), job.vision.norm_eps, look, ranks));
  blocks.push_back(std::make_unique<Projector>(job, true, ranks));
  blocks.push_back(std::make_unique<RegionSplice>(job, ranks));
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  while (blocks.size() + 1 < nodes.size()) {
    const std::size_t node = blocks.size();
    blocks.push_back(std::make_unique<RegionBlock>(job, spec.layers[node], nodes[node], rotary,
                                                   spec.adapted[node], ranks));
  }
  blocks.push_back(std::make_unique<RegionAnswer>(job, nodes.back(), ranks));
  return blocks;
}

}  // namespace trireme::blocks
