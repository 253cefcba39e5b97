#include "trireme/models/vicreg_loss.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "trireme/arch/hnet.h"
#include "trireme/arch/jepa.h"
#include "trireme/models/clip_tower.h"
#include "trireme/models/vicreg.h"
#include "trireme/ops/batch.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::models {
namespace {

constexpr double kScale = 25;  // what the paper's weights are in units of

struct VicregParams {
  enum Param { kQuery, kKv, kKvBias, kClips, kChunks = kClips + 9 };
};

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

std::int64_t VicregLoss::matches(const Sequences& views) const {
  std::int64_t fewest = job_.vicreg.matches;
  for (std::size_t s = 0; s + 1 < views.bounds.size(); ++s)
    fewest = std::min(fewest, views.bounds[s + 1] - views.bounds[s]);
  const at::Tensor own = at::full({1, 1}, static_cast<double>(fewest),
                                  at::TensorOptions().dtype(at::kDouble).device(across().device()));
  return static_cast<std::int64_t>(ops::gather_batch(own, across().batch()).min().item<double>());
}

std::vector<at::Tensor> VicregLoss::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  using enum VicregParams::Param;
  const config::Vicreg& weights = job_.vicreg;
  const Places places(inputs[1], arch::exact_parts(job_.precision.compute));
  const Sequences& views = places.sequences;
  const at::ScalarType type = statistics_type(inputs[0].scalar_type());
  const at::Tensor clips = expanded(pooled(inputs[0], views, context), kClips, context).to(type);
  const at::Tensor chunks = expanded(inputs[0], kChunks, context).to(type);
  const arch::PatchGrid grid = arch::patch_grid(job_.vision);
  const at::Tensor sizes =
      at::tensor({static_cast<double>(grid.frames), static_cast<double>(grid.rows),
                  static_cast<double>(grid.columns)},
                 places.centroids.options());
  const at::Tensor relative = places.centroids / sizes;
  const auto view = [&](std::size_t s) {
    const std::int64_t first = views.bounds[s], count = views.bounds[s + 1] - first;
    return LocalView{.features = chunks.narrow(0, first, count),
                     .places = relative.narrow(0, first, count)};
  };
  const std::int64_t count = matches(views), samples = views.count() / arch::kMasks;
  std::vector<at::Tensor> pairs;
  for (std::size_t s = 0; s + 1 < views.bounds.size() - 1; s += arch::kMasks)
    pairs.push_back(local_pairs(view(s), view(s + 1), count));
  const at::Tensor both = ops::gather_batch(clips.view({samples, -1}), across().batch());
  const at::Tensor local = ops::gather_batch(at::cat(pairs), across().batch());
  const std::vector<at::Tensor> sides = both.chunk(arch::kMasks, 1);
  Sharing sharing;
  if (const comm::Group* group = across().batch())
    sharing = {.rank = group->rank(), .ranks = group->size()};
  const at::Tensor loss = weights.alpha * vicreg_loss(sides[0], sides[1], weights, sharing) +
                          (1 - weights.alpha) * local_vicreg_loss(local, weights, sharing);
  return {loss * (weights.weight / kScale * static_cast<double>(samples))};
}

}  // namespace trireme::models
