// Suffixes: b sample, t token, d width, h head.
#include "trireme/families/vit/blocks_tower.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/model/blocks/activation.h"
#include "trireme/model/families/encoder.h"
#include "trireme/ops/flop_count.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::blocks {
namespace {

using config::Pooling;
using config::Positions;

// After the last norm's two.
struct HeadParams {
  enum Param {
    kProbe = 2,
    kQuery,
    kQueryBias,
    kKeyValue,
    kKeyValueBias,
    kOut,
    kOutBias,
    kNorm,
    kNormBias,
    kUp,
    kUpBias,
    kDown,
    kDownBias,
    kPoolParams
  };
};

// One query a head, [1, 1, h * width], over the tokens of each sample, [b, t, 2 * h * width]: [b, 1, h * width].
at::Tensor attend_once(const at::Tensor& query, const at::Tensor& keys_values, std::int64_t heads) {
  const std::int64_t b = keys_values.size(0), t = keys_values.size(1);
  const std::int64_t width = query.size(2) / heads;
  const at::ScalarType type = statistics_type(query.scalar_type());
  const at::Tensor kv =
      keys_values.to(type).view({b, t, 2, heads, width}).permute({2, 0, 3, 1, 4});  // [2,b,h,t,w]
  const at::Tensor q = query.to(type).view({1, heads, 1, width}).expand({b, heads, 1, width});
  const at::Tensor scores = ops::counted(at::matmul(q, kv[0].transpose(2, 3)), width) /
                            std::sqrt(static_cast<double>(width));
  const at::Tensor mixed =
      ops::counted(at::matmul(at::softmax(scores, -1), kv[1]), t);  // [b,h,1,w]
  return mixed.reshape({b, 1, heads * width}).to(query.scalar_type());
}

}  // namespace

std::vector<at::Tensor> PatchEmbed::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  std::size_t next = 0;
  const at::Tensor& weight = param(next++);
  const at::Tensor bias = vision_.pre_norm ? at::Tensor() : param(next++);
  at::Tensor clips = inputs[0];
  if (clips.dim() == 4) clips = clips.unsqueeze(2).expand({-1, -1, vision_.frames, -1, -1});
  at::Tensor x = ops::linear(patches(clips, vision_).to(weight.scalar_type()), weight, bias,
                             context.weight_gradients);
  if (vision_.pooling == Pooling::kClass) {
    const at::Tensor& token = param(next++);
    x = at::cat({token.expand({x.size(0), 1, x.size(2)}), x}, 1);
  }
  if (config::has_position_table(vision_)) {
    const at::Tensor& table = param(next++);
    const std::int64_t from = vision_.position_grid;
    x = x + (from > 0 ? resampled(table, from, vision_.image / vision_.patch) : table);
  }
  if (vision_.pre_norm)
    x = ops::layer_norm(x, param(next), param(next + 1), vision_.norm_eps,
                        context.weight_gradients);
  return {x};
}

std::size_t TowerHead::pool_params() const {
  return vision_.pooling == Pooling::kAttention ? HeadParams::kPoolParams : 2;
}

at::Tensor TowerHead::pooled(const at::Tensor& x_btd, const exec::BlockContext& context) const {
  const auto normed = [&](const at::Tensor& x) {
    return ops::layer_norm(x, param(0), param(1), vision_.norm_eps, context.weight_gradients);
  };
  switch (vision_.pooling) {
    case Pooling::kClass: return normed(x_btd.select(1, 0).contiguous());
    case Pooling::kMean: {
      const at::Tensor y = normed(x_btd);
      return y.to(statistics_type(y.scalar_type())).mean(1).to(y.scalar_type());
    }
    case Pooling::kAttention: break;
  }
  return attended(normed(x_btd), context);
}

at::Tensor TowerHead::attended(const at::Tensor& normed_btd,
                               const exec::BlockContext& context) const {
  using enum HeadParams::Param;
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const std::int64_t heads = mesh::share(vision_.heads, tp().rank(), tp().size()).count();
  const at::Tensor query = ops::column_linear(param(kProbe).unsqueeze(0), param(kQuery),
                                              param(kQueryBias), tp(), gradients);
  const at::Tensor keys_values =
      ops::column_linear(normed_btd, param(kKeyValue), param(kKeyValueBias), tp(), gradients);
  const at::Tensor mixed = ops::row_linear(attend_once(query, keys_values, heads), param(kOut),
                                           param(kOutBias), tp(), gradients);
  const ops::Branching branch =
      ops::residual_norm(mixed, {}, param(kNorm), param(kNormBias), vision_.norm_eps, gradients);
  const at::Tensor up =
      ops::column_linear(branch.normed, param(kUp), param(kUpBias), tp(), gradients);
  const at::Tensor down =
      activated_linear(up, vision_.activation, param(kDown), param(kDownBias), tp(), gradients);
  return (branch.stream + down).squeeze(1);
}

at::Tensor resampled(const at::Tensor& table, std::int64_t from, std::int64_t to) {
  const auto options = table.options().dtype(at::kDouble);
  const double step = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
  // A position's share falls from 1 to 0 over the way to the next: [to, from].
  const at::Tensor shares =
      (1 - (at::arange(to, options).unsqueeze(1) * step - at::arange(from, options)).abs())
          .clamp_min(0)
          .to(statistics_type(table.scalar_type()));
  const at::Tensor rows =
      at::matmul(shares, table.to(statistics_type(table.scalar_type())).view({from, -1}));
  return at::matmul(shares, rows.view({to, from, -1})).flatten(0, 1).to(table.scalar_type());
}

EncoderBlock::Look tower_look(const config::Vision& vision, DType compute, at::Device device) {
  if (vision.positions == Positions::kLearned) return always({});
  at::Tensor places = grid_positions(model::patch_grid(vision));
  // A class token is at the origin, where nothing is rotated.
  if (vision.pooling == Pooling::kClass)
    places = at::cat({at::zeros({1, 3}, places.options()), places}, 0);
  const at::ScalarType type = compute == DType::kF64 ? at::kDouble : at::kFloat;
  const std::int64_t width = vision.hidden / vision.heads;
  AxialRotary rotary =
      vision.positions == Positions::kLearnedRotary
          ? plane_rotary(places.narrow(1, 1, 2), width, type)
          : axial_rotary(
                places, width,
                vision.positions == Positions::kRotary ? RotaryPairs::kExact : RotaryPairs::kCompat,
                type);
  rotary.cosines = rotary.cosines.to(device);
  rotary.sines = rotary.sines.to(device);
  return always({.rotary = std::move(rotary)});
}

void add_tower(const config::Job& job, const Ranks& ranks, Blocks& blocks) {
  const config::Vision& vision = job.vision;
  const model::Encoder encoder = model::tower(vision, job.run.micro_batch);
  const EncoderBlock::Look look = tower_look(vision, job.precision.compute, ranks->device());
  blocks.push_back(std::make_unique<PatchEmbed>(vision, ranks));
  for (std::int64_t layer = 0; layer < vision.layers; ++layer)
    blocks.push_back(std::make_unique<EncoderBlock>(encoder, vision.norm_eps, look, ranks));
}

}  // namespace trireme::blocks
