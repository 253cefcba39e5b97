#include "trireme/families/clip/blocks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>

#include <cmath>
#include <limits>

#include "trireme/families/clip/blocks_siglip.h"
#include "trireme/families/clip/model.h"
#include "trireme/ops/batch.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/flop_count.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

at::Tensor exact(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

// Rows of length 1.
at::Tensor normalized(const at::Tensor& x) {
  const at::Tensor rows = exact(x);
  return rows / rows.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

// Takes the columns of samples that only fill up a batch out of every softmax.
at::Tensor against_present(at::Tensor logits, const at::Tensor& absent) {
  return logits.masked_fill_(absent.unsqueeze(0), -std::numeric_limits<double>::infinity());
}

// The sum over rows that are there of -log softmax at the partner.
at::Tensor cross_entropies(const at::Tensor& logits, const at::Tensor& partners,
                           const at::Tensor& absent) {
  const at::Tensor own = at::log_softmax(logits, 1).gather(1, partners.unsqueeze(1)).squeeze(1);
  return own.masked_fill(absent, 0).sum().neg();
}

}  // namespace

std::vector<at::Tensor> ImageFeatures::forward(const std::vector<at::Tensor>& inputs,
                                               const exec::BlockContext& context) {
  const at::Tensor feature = pooled(inputs[0], context);
  return {has_own() ? ops::linear(feature, own(0), {}, context.weight_gradients) : feature};
}

std::vector<at::Tensor> TextEmbed::forward(const std::vector<at::Tensor>& inputs,
                                           const exec::BlockContext& context) {
  return {ops::embedding(inputs[0], param(0), across().first_id(), tp()) + param(1)};
}

std::vector<at::Tensor> TextFeatures::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  const at::Tensor& x_btd = inputs[0];
  const at::Tensor places =
      inputs[1].clamp_min(0).view({-1, 1, 1}).expand({x_btd.size(0), 1, x_btd.size(2)});
  const at::Tensor last = x_btd.gather(1, places).squeeze(1);
  const at::Tensor normed =
      ops::layer_norm(last, param(0), param(1), norm_eps_, context.weight_gradients);
  const at::Tensor features = ops::linear(normed, param(2), {}, context.weight_gradients);
  return {features.masked_fill((inputs[1] < 0).unsqueeze(1), 0)};
}

std::vector<at::Tensor> ContrastiveLoss::forward(const std::vector<at::Tensor>& inputs,
                                                 const exec::BlockContext& context) {
  const at::Tensor images = normalized(inputs[0]), captions = normalized(inputs[1]);
  const bool pairs = loss_ == config::ContrastiveLoss::kSiglip;
  return {pairs ? siglip(images, captions, context) : clip(images, captions, context)};
}

at::Tensor ContrastiveLoss::scores(const at::Tensor& images, const at::Tensor& captions) const {
  const at::Tensor cosines = at::matmul(normalized(images), normalized(captions).t());
  const at::Tensor scaled = exact(param(0)).exp() * cosines;
  return loss_ == config::ContrastiveLoss::kClip ? scaled : scaled + exact(param(1));
}

at::Tensor ContrastiveLoss::clip(const at::Tensor& images, const at::Tensor& captions,
                                 const exec::BlockContext& context) const {
  const std::int64_t width = images.size(1);
  const at::Tensor all = ops::gather_batch(at::cat({images, captions}, 1), across().batch());
  const at::Tensor scale = exact(param(0)).exp();
  const auto compared = [&](const at::Tensor& own, std::int64_t first) {
    return scale * ops::counted(at::matmul(own, all.narrow(1, first, width).t()), width);
  };
  const at::Tensor gone = absent(captions), all_gone = absent(all.narrow(1, width, width));
  const at::Tensor rows = against_present(compared(images, width), all_gone);
  const at::Tensor columns = against_present(compared(captions, 0), all_gone);
  const at::Tensor own = partners(rows);
  if (context.counts != nullptr)
    count(rows.argmax(1).eq(own).logical_and(gone.logical_not()).sum().item<std::int64_t>(),
          captions, context);
  return (cross_entropies(rows, own, gone) + cross_entropies(columns, own, gone)) / 2;
}

at::Tensor ContrastiveLoss::siglip(const at::Tensor& images, const at::Tensor& captions,
                                   const exec::BlockContext& context) const {
  const SiglipResult result =
      siglip_loss(images, captions, exact(param(0)), exact(param(1)), across().batch());
  count(result.nearest_own, captions, context);
  return result.loss;
}

at::Tensor ContrastiveLoss::partners(const at::Tensor& logits) const {
  const std::int64_t rows = logits.size(0);
  const std::int64_t rank = across().batch() == nullptr ? 0 : across().batch()->rank();
  return at::arange(rank * rows, (rank + 1) * rows, logits.options().dtype(at::kLong));
}

void ContrastiveLoss::count(std::int64_t right, const at::Tensor& captions,
                            const exec::BlockContext& context) {
  if (context.counts == nullptr) return;
  const auto present = absent(captions).logical_not().sum().item<std::int64_t>();
  context.counts->add(0, static_cast<double>(right), static_cast<double>(present));
}

Blocks clip_blocks(const config::Job& job, const model::ModelSpec&, const Ranks& ranks) {
  const config::Model& model = job.model;
  Blocks blocks;
  add_tower(job, ranks, blocks);
  blocks.push_back(std::make_unique<ImageFeatures>(job.vision, ranks));
  blocks.push_back(std::make_unique<TextEmbed>(ranks));
  const model::Encoder text = model::text_tower(job, job.run.micro_batch);
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    blocks.push_back(std::make_unique<EncoderBlock>(text, model.norm_eps,
                                                    always({.mask = ops::Mask::causal()}), ranks));
  blocks.push_back(std::make_unique<TextFeatures>(model.norm_eps, ranks));
  blocks.push_back(std::make_unique<ContrastiveLoss>(job.contrastive.loss, ranks));
  return blocks;
}

}  // namespace trireme::blocks
