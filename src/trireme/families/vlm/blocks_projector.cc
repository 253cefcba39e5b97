// Suffixes: n tile, t token, q query, d width, h head.
#include "trireme/families/vlm/blocks_projector.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/model_projector.h"
#include "trireme/ops/flop_count.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

using config::ProjectorKind;

// Of queries [n, q, d] to keys and values [n, t, d]; scores and sums in fp32, or fp64.
at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                  std::int64_t heads) {
  const at::ScalarType wide = queries.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto by_head = [&](const at::Tensor& x) {
    return x.to(wide).unflatten(2, {heads, -1}).transpose(1, 2);  // [n, h, t, d / h]
  };
  const at::Tensor q = by_head(queries);
  const at::Tensor products = ops::counted(at::matmul(q, by_head(keys).transpose(2, 3)), q.size(3));
  const at::Tensor scores = products / std::sqrt(static_cast<double>(q.size(3)));
  return ops::counted(at::matmul(at::softmax(scores, -1), by_head(values)), values.size(1))
      .transpose(1, 2)
      .flatten(2)
      .to(queries.scalar_type());
}

}  // namespace

// The parameters one after the other, as layers.
class Projector::Reader {
 public:
  Reader(const Projector& projector, const exec::BlockContext& context)
      : projector_(projector), gradients_(context.weight_gradients) {}

  const at::Tensor& tensor() { return projector_.param(next_++); }
  at::Tensor linear(const at::Tensor& x) {
    const at::Tensor& weight = tensor();
    return ops::linear(x, weight, tensor(), gradients_);
  }
  at::Tensor product(const at::Tensor& x) { return ops::linear(x, tensor(), {}, gradients_); }
  at::Tensor norm(const at::Tensor& x) {
    const at::Tensor& gain = tensor();
    return ops::layer_norm(x.contiguous(), gain, tensor(), projector_.norm_eps_, gradients_);
  }

 private:
  const Projector& projector_;
  ops::WeightGradientsPtr gradients_;
  std::size_t next_ = 0;
};

at::Tensor joined_squares(const at::Tensor& features, std::int64_t side) {
  const std::int64_t half = side / 2, d = features.size(2);
  return features.reshape({-1, half, 2, half, 2, d})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({-1, half * half, model::kMerged * d});
}

Projector::Projector(const config::Job& job, bool normed, std::shared_ptr<const Across> across,
                     bool deepstack)
    : BoundBlock(std::move(across)),
      form_(job.projector),
      norm_eps_(job.vision.norm_eps),
      normed_(normed),
      class_token_(job.vision.pooling == config::Pooling::kClass),
      deepstack_(deepstack),
      ends_in_queries_(config::crosses(job) && !config::keeps_grid(job.projector)),
      side_(job.vision.image / job.vision.patch) {}

std::vector<at::Tensor> Projector::forward(const std::vector<at::Tensor>& inputs,
                                           const exec::BlockContext& context) {
  Reader next(*this, context);
  at::Tensor x = normed_ ? next.norm(inputs[0]) : inputs[0];
  if (class_token_) x = x.narrow(1, 1, x.size(1) - 1).contiguous();
  switch (form_.kind) {
    case ProjectorKind::kNone: return {x};
    case ProjectorKind::kLinear: return {next.linear(x)};
    case ProjectorKind::kMerger: x = merger(x, next); [[fallthrough]];
    case ProjectorKind::kMlp: x = at::gelu(next.linear(x)); break;
    case ProjectorKind::kQFormer: x = qformer(x, next); break;
    case ProjectorKind::kPerceiver: x = perceiver(x, next); break;
  }
  return {ends_in_queries_ ? x : next.linear(x)};
}

at::Tensor Projector::merger(const at::Tensor& features, Reader& next) const {
  return deepstack_ ? next.norm(joined_squares(features, side_))
                    : joined_squares(next.norm(features), side_);
}

at::Tensor Projector::qformer(const at::Tensor& features, Reader& next) const {
  at::Tensor x_nqd = next.tensor().expand({features.size(0), -1, -1});
  x_nqd = next.norm(x_nqd);
  const auto branch = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const at::Tensor out = next.linear(attend(q, k, v, form_.heads));
    x_nqd = next.norm(x_nqd + out);
  };
  for (std::int64_t layer = 0; layer < form_.layers; ++layer) {
    const std::vector<at::Tensor> own = next.linear(x_nqd).chunk(3, -1);
    branch(own[0], own[1], own[2]);
    if (layer % 2 == 0) {
      const at::Tensor q = next.linear(x_nqd);
      const std::vector<at::Tensor> kv = next.linear(features).chunk(2, -1);
      branch(q, kv[0], kv[1]);
    }
    const at::Tensor inner = at::gelu(next.linear(x_nqd));
    const at::Tensor out = next.linear(inner);
    x_nqd = next.norm(x_nqd + out);
  }
  return x_nqd;
}

at::Tensor Projector::perceiver(const at::Tensor& features, Reader& next) const {
  at::Tensor x_nqd = next.tensor().expand({features.size(0), -1, -1});
  for (std::int64_t layer = 0; layer < form_.layers; ++layer) {
    const at::Tensor seen = next.norm(features);
    const at::Tensor latents = next.norm(x_nqd);
    const at::Tensor q = next.product(latents);
    const std::vector<at::Tensor> kv = next.product(at::cat({seen, latents}, 1)).chunk(2, -1);
    x_nqd = x_nqd + next.product(attend(q, kv[0], kv[1], form_.heads));
    const at::Tensor inner = at::gelu(next.product(next.norm(x_nqd)));
    x_nqd = x_nqd + next.product(inner);
  }
  return next.norm(x_nqd);
}

}  // namespace trireme::blocks
