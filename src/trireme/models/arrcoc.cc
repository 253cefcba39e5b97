// Suffixes: b sample, p region, t token, r row, d width.
#include "trireme/models/arrcoc.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "trireme/arch/arrcoc.h"
#include "trireme/config/head_width.h"
#include "trireme/config/resolve_vlm.h"
#include "trireme/models/encoder.h"
#include "trireme/models/projector.h"
#include "trireme/models/scorers.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/linear.h"

namespace trireme::models {
namespace {

at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// [n, 3, s, s] -> [n, 3, side, side].
at::Tensor resized(const at::Tensor& x, std::int64_t side) {
  if (side == x.size(2)) return x;
  if (side < x.size(2)) return at::adaptive_avg_pool2d(x, {side, side});
  return at::upsample_bilinear2d(x, {side, side}, false);
}

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
    return Sight{
        .mask = ops::Mask::full(
            ops::documents_of_lengths(regions.starts().to(device), 1, places.size(0))),
        .rotary = axial_rotary(places, head_dim, RotaryPairs::kExact, statistics_type(inputs[0]))};
  };
}

// Llama's frequencies at positions in parts of a token.
ops::RotaryTable fine_table(const config::Job& job) {
  const std::int64_t half = config::head_width(job.model) / 2;
  const std::int64_t last = Regions::kFraction * job.arrcoc.grid * job.arrcoc.most;
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor places = at::arange(last + 1, options) / double{Regions::kFraction};
  const at::Tensor frequencies =
      at::pow(job.model.rope_theta, at::arange(half, options) / -static_cast<double>(half));
  const at::Tensor angles = places.unsqueeze(1) * frequencies;
  const at::ScalarType type = job.precision.compute == DType::kF64 ? at::kDouble : at::kFloat;
  return {.cosines = angles.cos().to(type), .sines = angles.sin().to(type)};
}

}  // namespace

RegionSizes::RegionSizes(const config::Job& job)
    : limits(levels_of(job.arrcoc)), grid(job.arrcoc.grid), tokens(job.model.seq_len) {}

std::vector<at::Tensor> Asked::forward(const std::vector<at::Tensor>& inputs,
                                       const exec::BlockContext& context) {
  const at::Tensor x_btd =
      ops::embedding(inputs[0].unsqueeze(1), param(0), across().first_id(), tp());
  const at::Tensor asked = x_btd.squeeze(1);
  return {asked, asked.detach()};
}

std::vector<at::Tensor> RegionEmbed::forward(const std::vector<at::Tensor>& inputs,
                                             const exec::BlockContext& context) {
  const Regions regions = sizes_.regions(inputs[1]);
  const at::Tensor images = inputs[0].to(statistics_type(param(0))) * 2 - 1;
  const std::int64_t grid = sizes_.grid, side = images.size(2) / grid;
  const at::Tensor all = images.reshape({-1, 3, grid, side, grid, side})
                             .permute({0, 2, 4, 1, 3, 5})
                             .reshape({-1, 3, side, side});
  const std::int64_t least = sizes_.limits.least;
  std::vector<at::Tensor> rows = {cut(resized(all, least * patch_), least, patch_)};
  for (const Regions::Group& group : regions.groups())
    rows.push_back(
        cut(resized(all.index_select(0, group.regions.to(all.device())), group.level * patch_),
            group.level, patch_));
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
        at::upsample_bilinear2d(base.index_select(0, chosen).to(statistics_type(rows)),
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
  const at::Tensor asked = inputs[0].unsqueeze(1);
  const at::Tensor behind =
      (at::arange(sizes_.tokens, slots.options()) == regions.tokens().to(device).unsqueeze(1))
          .unsqueeze(2);
  const at::Tensor rest = at::where(behind, asked, at::zeros_like(asked));
  return {at::where((slots >= 0).unsqueeze(2), seen, rest)};
}

std::vector<at::Tensor> RegionDecoderBlock::forward(const std::vector<at::Tensor>& inputs,
                                                    const exec::BlockContext& context) {
  const at::Tensor positions =
      sizes_.regions(inputs[1]).positions(sizes_.tokens).to(inputs[0].device());
  return LlamaBlock::forward({inputs[0], positions}, context);
}

std::vector<at::Tensor> RegionAnswer::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  const at::Tensor &x_btd = inputs[0], &answer = inputs[1];
  const Regions regions = sizes_.regions(inputs[3]);
  const at::Tensor place =
      regions.tokens().to(x_btd.device()).view({-1, 1, 1}).expand({-1, 1, x_btd.size(2)});
  const at::Tensor last = x_btd.gather(1, place);
  if (context.counts != nullptr) {
    at::NoGradGuard no_grad;
    const auto samples = static_cast<double>(answer.size(0));
    const at::Tensor good = right(last.detach().flatten(0, 1), answer.flatten());
    context.counts->add(0, static_cast<double>(good.sum().item<std::int64_t>()), samples);
    context.counts->add(
        1, static_cast<double>(regions.tokens_of(inputs[2]).sum().item<std::int64_t>()), samples);
  }
  return LlamaHead::forward({last, answer}, context);
}

Blocks arrcoc_blocks(const config::Job& job, const arch::ModelSpec& spec, const Ranks& ranks) {
  const ops::RotaryTable rotary = fine_table(job).to(ranks->device());
  const EncoderBlock::Look look = within_regions(job);
  Blocks blocks;
  blocks.push_back(std::make_unique<Asked>(ranks));
  blocks.push_back(std::make_unique<Scorers>(job, ranks));
  blocks.push_back(std::make_unique<RegionEmbed>(job, ranks));
  for (std::int64_t layer = 0; layer < job.vision.layers; ++layer)
    blocks.push_back(
        std::make_unique<EncoderBlock>(arch::region_tower(job), job.vision.norm_eps, look, ranks));
  blocks.push_back(std::make_unique<Projector>(job, true, ranks));
  blocks.push_back(std::make_unique<RegionSplice>(job, ranks));
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  while (blocks.size() + 1 < nodes.size()) {
    const std::size_t node = blocks.size();
    blocks.push_back(
        std::make_unique<RegionDecoderBlock>(job, nodes[node], rotary, spec.adapted[node], ranks));
  }
  blocks.push_back(std::make_unique<RegionAnswer>(job, nodes.back(), ranks));
  return blocks;
}

}  // namespace trireme::models
