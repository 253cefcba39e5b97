#include "trireme/families/hvjepa/blocks_vicreg.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/var.h>

#include <cmath>

#include "trireme/ops/flop_count.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::blocks {
namespace {

constexpr double kLeastVariance = 1e-4;

}  // namespace

at::Tensor variance_loss(const at::Tensor& x) {
  return at::relu(1 - (at::var(x, /*dim=*/-2) + kLeastVariance).sqrt()).mean();
}

at::Tensor covariance_loss(const at::Tensor& x, const Sharing& sharing) {
  const std::int64_t rows = x.size(-2), columns = x.size(-1);
  const at::Tensor centred = x - x.mean(-2, /*keepdim=*/true);
  // The squares of X'X add up to those of XX', whichever has fewer.
  const at::Tensor narrow = rows < columns ? centred.transpose(-2, -1) : centred;
  const mesh::Share own = mesh::share(narrow.size(-1), sharing.rank, sharing.ranks);
  const at::Tensor products =
      ops::counted(at::matmul(narrow.transpose(-2, -1), narrow.narrow(-1, own.begin, own.count())),
                   narrow.size(-2));
  const mesh::Share summed = mesh::share(columns, sharing.rank, sharing.ranks);
  const at::Tensor variances = centred.narrow(-1, summed.begin, summed.count()).square().sum(-2);
  const double count = static_cast<double>(x.numel() / rows) * std::pow(rows - 1, 2);
  return (products.square().sum() - variances.square().sum()) *
         (static_cast<double>(sharing.ranks) / count);
}

at::Tensor vicreg_loss(const at::Tensor& x, const at::Tensor& y, const VicregWeights& weights,
                       const Sharing& sharing) {
  const at::Tensor invariance = weights.invariance * (x - y).square().mean();
  if (x.size(-2) < 2) return invariance;
  return invariance + weights.variance / 2 * (variance_loss(x) + variance_loss(y)) +
         weights.covariance / 2 * (covariance_loss(x, sharing) + covariance_loss(y, sharing));
}

Matches nearest(const at::Tensor& from, const at::Tensor& to, std::int64_t count) {
  constexpr std::int64_t kExact =
      2;  // no matrix products, which would round distances of equals apart
  const auto [distance, row] = at::cdist(from.detach(), to.detach(), 2, kExact).min(1);
  const at::Tensor order = std::get<1>(distance.sort(/*stable=*/true, 0, /*descending=*/false));
  const at::Tensor kept = std::get<0>(order.narrow(0, 0, count).sort());
  return {.from = kept, .to = row.index_select(0, kept)};
}

at::Tensor matched(const LocalView& a, const LocalView& b, MatchBy by, std::int64_t count) {
  const auto& compared = by == MatchBy::kPlace ? &LocalView::places : &LocalView::features;
  const Matches there = nearest(a.*compared, b.*compared, count);
  const Matches back = nearest(b.*compared, a.*compared, count);
  return at::cat({a.features.index_select(0, there.from), b.features.index_select(0, there.to),
                  b.features.index_select(0, back.from), a.features.index_select(0, back.to)},
                 1);
}

at::Tensor local_vicreg_loss(const at::Tensor& matched, config::LocalStatistics statistics,
                             const VicregWeights& weights, const Sharing& sharing) {
  const bool pooled = statistics == config::LocalStatistics::kPooled;
  const std::vector<at::Tensor> sides =
      (pooled ? matched.flatten(0, 1) : matched.transpose(0, 1)).chunk(4, -1);
  return (vicreg_loss(sides[0], sides[1], weights, sharing) +
          vicreg_loss(sides[2], sides[3], weights, sharing)) /
         2;
}

}  // namespace trireme::blocks
