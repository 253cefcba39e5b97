#include "trireme/families/hvjepa/blocks_vicreg_loss.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "trireme/families/hnet/model.h"
#include "trireme/families/hvjepa/blocks_vicreg.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/jepa/model.h"
#include "trireme/ops/batch.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

constexpr double kShareOfClips =
    0.75;                      // share of the loss of whole clips; the rest is that of chunks
constexpr double kScale = 25;  // what the paper's weights are in units of

struct VicregParams {
  enum Param { kQuery, kKv, kKvBias, kClips, kChunks = kClips + 9 };
};

// Chunks of the view of each sample that has fewer, [samples, 1]; 0 of a sample that only fills up a batch.
at::Tensor fewest_chunks(const Places& places) {
  const Sequences& views = places.sequences;
  std::vector<double> fewest;
  for (std::size_t s = 0; s + 1 < views.bounds.size(); s += model::kMasks) {
    std::int64_t least = views.bounds[s + 1] - views.bounds[s];
    for (std::size_t view = s + 1; view < s + model::kMasks; ++view)
      least = std::min(least, views.bounds[view + 1] - views.bounds[view]);
    fewest.push_back(places.there[s] ? static_cast<double>(least) : 0);
  }
  return at::tensor(fewest, at::kDouble).unsqueeze(1).to(places.centroids.device());
}

}  // namespace

at::Tensor VicregLoss::pooled(const at::Tensor& x, const Sequences& sequences,
                              const exec::BlockContext& context) const {
  using enum VicregParams::Param;
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const std::vector<at::Tensor> kv =
      ops::linear(x, param(kKv), param(kKvBias), gradients).chunk(2, 1);
  const at::Tensor scores =
      (kv[0] * param(kQuery)).sum(-1) / std::sqrt(static_cast<double>(x.size(1)));
  std::vector<at::Tensor> all;
  for (std::size_t s = 0; s + 1 < sequences.bounds.size(); ++s) {
    const std::int64_t first = sequences.bounds[s], count = sequences.bounds[s + 1] - first;
    const at::Tensor shares = at::softmax(scores.narrow(0, first, count), 0);
    all.push_back((shares.unsqueeze(1) * kv[1].narrow(0, first, count)).sum(0));
  }
  return at::stack(all);
}

at::Tensor VicregLoss::expanded(const at::Tensor& x, std::size_t first,
                                const exec::BlockContext& context) const {
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  at::Tensor y = x;
  for (std::size_t layer = first; layer < first + 8; layer += 4)
    y = at::relu(ops::layer_norm(ops::linear(y, param(layer), param(layer + 1), gradients),
                                 param(layer + 2), param(layer + 3), job_.vision.norm_eps,
                                 gradients));
  return ops::linear(y, param(first + 8), {}, gradients);
}

at::Tensor VicregLoss::compared(const std::vector<at::Tensor>& inputs, const Places& places,
                                const MatchCounts& counts,
                                const exec::BlockContext& context) const {
  using enum VicregParams::Param;
  const Sequences& views = places.sequences;
  const at::ScalarType type = statistics_type(inputs[0].scalar_type());
  const at::Tensor clips = expanded(pooled(inputs[0], views, context), kClips, context).to(type);
  const at::Tensor chunks = expanded(inputs[0], kChunks, context).to(type);
  const model::PatchGrid grid = model::patch_grid(job_.vision);
  const at::Tensor sizes =
      at::tensor({static_cast<double>(grid.frames), static_cast<double>(grid.rows),
                  static_cast<double>(grid.columns)},
                 places.centroids.options());
  const at::Tensor relative = places.centroids / sizes;
  const auto view = [&](std::int64_t s) {
    const auto first = views.bounds[s];
    const std::int64_t count = views.bounds[static_cast<std::size_t>(s) + 1] - first;
    return LocalView{.features = chunks.narrow(0, first, count),
                     .places = relative.narrow(0, first, count)};
  };
  const std::int64_t columns =
      model::kMasks * clips.size(1) + 4 * (counts.by_place + counts.by_feature) * chunks.size(1);
  std::vector<at::Tensor> rows;
  for (std::int64_t s = 0; s < views.count(); s += model::kMasks) {
    if (!places.there[s]) {
      rows.push_back(at::zeros({columns}, clips.options()));
      continue;
    }
    const LocalView a = view(s), b = view(s + 1);
    rows.push_back(at::cat({clips.narrow(0, s, model::kMasks).flatten(),
                            matched(a, b, MatchBy::kPlace, counts.by_place).flatten(),
                            matched(a, b, MatchBy::kFeature, counts.by_feature).flatten()}));
  }
  return at::stack(rows);
}

at::Tensor VicregLoss::loss(const at::Tensor& samples, const MatchCounts& counts) const {
  const config::Vicreg& keys = job_.vicreg;
  Sharing sharing;
  if (const comm::Group* group = across().batch())
    sharing = {.rank = group->rank(), .ranks = group->size()};
  const std::int64_t clips = model::kMasks * keys.width, of_match = 4 * keys.local_width;
  const std::vector<at::Tensor> parts = samples.split_with_sizes(
      {clips, counts.by_place * of_match, counts.by_feature * of_match}, 1);
  const auto local = [&](const at::Tensor& part, std::int64_t count) {
    return local_vicreg_loss(part.view({part.size(0), count, of_match}), keys.statistics, {},
                             sharing);
  };
  const std::vector<at::Tensor> views = parts[0].chunk(model::kMasks, 1);
  return kShareOfClips * vicreg_loss(views[0], views[1], {}, sharing) +
         (1 - kShareOfClips) *
             (local(parts[1], counts.by_place) + local(parts[2], counts.by_feature));
}

std::vector<at::Tensor> VicregLoss::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  const config::Vicreg& keys = job_.vicreg;
  const Places places(inputs[1], model::exact_parts(job_.precision.compute));
  const at::Tensor fewest = ops::gather_batch(fewest_chunks(places), across().batch()).flatten();
  const at::Tensor there = (fewest > 0).nonzero().flatten();
  const auto least = static_cast<std::int64_t>(fewest.index_select(0, there).min().item<double>());
  const MatchCounts counts{
      .by_place = std::min(model::kMatchesByPlace, least),
      .by_feature = keys.feature_matches == 0 ? least : std::min(keys.feature_matches, least)};
  at::Tensor samples =
      ops::gather_batch(compared(inputs, places, counts, context), across().batch());
  if (there.size(0) < samples.size(0)) samples = samples.index_select(0, there);
  const double ranks = across().batch() != nullptr ? across().batch()->size() : 1;
  return {loss(samples, counts) *
          (keys.weight / kScale * (static_cast<double>(there.size(0)) / ranks))};
}

}  // namespace trireme::blocks
