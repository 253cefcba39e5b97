// Suffixes: b sample, t token, d width.
#include "trireme/families/vlm/blocks_gated_cross.h"

#include <ATen/ops/cummax.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

#include "trireme/families/vlm/model_gated_cross.h"
#include "trireme/ops/attention/cross_attention.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

enum CrossParam {
  kCrossNorm,
  kCrossNormBias,
  kToQuery,
  kToKeyValue,
  kToOut,
  kAttentionGate,
  kFeedNorm,
  kFeedNormBias,
  kFeedUp,
  kFeedDown,
  kFeedGate
};

// Rows that each token sees, of all; a tile has `count`. A token without rows has an empty range after those seen so
// far.
ops::Documents tile_seen(const at::Tensor& visual, std::int64_t count) {
  const at::Tensor first = visual.reshape({1, -1}), sees = first >= 0;
  const at::Tensor end =
      std::get<0>(at::cummax(at::where(sees, first + count, at::zeros_like(first)), 1));
  return {.begin = at::where(sees, first, end), .end = end};
}

}  // namespace

std::vector<at::Tensor> GatedCross::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  const at::Tensor& x_btd = inputs[0];
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const ops::Branching first = ops::residual_norm(
      x_btd, {}, param(kCrossNorm), param(kCrossNormBias), model::kCrossNormEps, gradients);
  const at::Tensor seen_btd =
      param(kAttentionGate).tanh() * attended(first.normed, inputs[1], inputs[2], gradients);
  const ops::Branching second =
      ops::residual_norm(first.stream, seen_btd, param(kFeedNorm), param(kFeedNormBias),
                         model::kCrossNormEps, gradients);
  return {second.stream + param(kFeedGate).tanh() * fed(second.normed, gradients)};
}

at::Tensor GatedCross::attended(const at::Tensor& normed, const at::Tensor& visual,
                                const at::Tensor& rows,
                                const ops::WeightGradientsPtr& gradients) const {
  const at::Tensor q = ops::column_linear(normed, param(kToQuery), {}, tp(), gradients);
  const at::Tensor kv = ops::column_linear(rows, param(kToKeyValue), {}, tp(), gradients);
  const at::Tensor mixed =
      ops::cross_attention(q.flatten(0, 1).unsqueeze(0), kv.flatten(0, 1).unsqueeze(0),
                           q.size(2) / model::kCrossHead, tile_seen(visual, rows.size(1)));
  return ops::row_linear(mixed.view(q.sizes()), param(kToOut), {}, tp(), gradients);
}

at::Tensor GatedCross::fed(const at::Tensor& normed,
                           const ops::WeightGradientsPtr& gradients) const {
  const at::Tensor up = ops::column_linear(normed, param(kFeedUp), {}, tp(), gradients);
  return ops::row_linear(at::gelu(up), param(kFeedDown), {}, tp(), gradients);
}

}  // namespace trireme::blocks
