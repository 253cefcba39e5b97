// Suffixes: t row, n neighbour, h head, w width of a head, d width.
#include "trireme/families/hvjepa/blocks_neighbours.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/model/blocks/activation.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {}  // namespace

at::Tensor neighbours(const at::Tensor& x, const GridRows& rows, std::int64_t count) {
  const at::Tensor around = rows.rows_at(around_offsets(x.device()));
  const at::Tensor wide = direction(x.detach().to(statistics_type(x.scalar_type())));
  const at::Tensor others =
      wide.index_select(0, around.clamp_min(0).flatten()).view({x.size(0), around.size(1), -1});
  const at::Tensor cosines =
      (others * wide.unsqueeze(1))
          .sum(-1)
          .masked_fill(around.lt(0), -std::numeric_limits<double>::infinity());
  const at::Tensor order =
      std::get<1>(cosines.sort(/*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, count);
  const at::Tensor self = at::arange(x.size(0), around.options()).unsqueeze(1);
  return at::cat({self, around.gather(1, order)}, 1);
}

GridRows grid_rows(const std::vector<at::Tensor>& inputs, std::size_t first, std::int64_t rows,
                   const model::PatchGrid& grid) {
  if (inputs.size() > first) return {inputs[first], inputs[first + 1], grid};
  const auto options = inputs[0].options().dtype(at::kLong);
  return {at::arange(rows, options), at::arange(0, rows + 1, grid.tokens(), options), grid};
}

at::Tensor NeighboursBlock::attend(const at::Tensor& qkv, const at::Tensor& seen_tn,
                                   const GridRows& rows) const {
  const std::int64_t heads = job_.chunk.heads, width = job_.chunk.hidden / heads;
  const at::ScalarType type = statistics_type(qkv.scalar_type());
  const AxialRotary rotary = axial_rotary(rows.places, width, rotary_pairs(job_.vision), type);
  const std::vector<at::Tensor> parts = qkv.to(type).chunk(3, -1);
  const auto turned = [&](const at::Tensor& x) {
    return rotate(x, rotary).view({-1, heads, width});
  };
  const auto gathered = [&](const at::Tensor& x_thw) {
    return x_thw.index_select(0, seen_tn.clamp_min(0).flatten())
        .view({seen_tn.size(0), seen_tn.size(1), heads, width});
  };
  const at::Tensor q_thw = turned(parts[0]), k_tnhw = gathered(turned(parts[1])),
                   v_tnhw = gathered(parts[2].reshape({-1, heads, width}));
  const at::Tensor scores_tnh =
      (q_thw.unsqueeze(1) * k_tnhw).sum(-1) / std::sqrt(static_cast<double>(width));
  const at::Tensor shares_tnh = at::softmax(
      scores_tnh.masked_fill(seen_tn.lt(0).unsqueeze(2), -std::numeric_limits<double>::infinity()),
      1);
  return (shares_tnh.unsqueeze(3) * v_tnhw).sum(1).flatten(1).to(qkv.scalar_type());
}

std::vector<at::Tensor> NeighboursBlock::forward(const std::vector<at::Tensor>& inputs,
                                                 const exec::BlockContext& context) {
  using enum BiasedBlock::Param;
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const at::Tensor x_td = inputs[0].dim() == 3 ? inputs[0].flatten(0, 1) : inputs[0];
  const GridRows rows = grid_rows(inputs, 1, x_td.size(0), model::patch_grid(job_.vision));
  const double eps = job_.vision.norm_eps;
  const at::Tensor normed = ops::layer_norm(x_td, param(kNorm1), param(kNorm1Bias), eps, gradients);
  const at::Tensor attended = attend(ops::linear(normed, param(kQkv), param(kQkvBias), gradients),
                                     neighbours(normed, rows, model::kNeighbours), rows);
  const at::Tensor stream = x_td + ops::linear(attended, param(kOut), param(kOutBias), gradients);
  const at::Tensor gathered_rows =
      ops::layer_norm(stream, param(kNorm2), param(kNorm2Bias), eps, gradients);
  const at::Tensor up = activated(ops::linear(gathered_rows, param(kUp), param(kUpBias), gradients),
                                  job_.vision.activation);
  return {stream + ops::linear(up, param(kDown), param(kDownBias), gradients)};
}

}  // namespace trireme::blocks
