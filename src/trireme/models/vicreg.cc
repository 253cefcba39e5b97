#include "trireme/models/vicreg.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/var.h>

#include "trireme/mesh/share.h"
#include "trireme/ops/flop_count.h"

namespace trireme::models {
namespace {

constexpr double kLeastVariance = 1e-4;

}  // namespace

at::Tensor variance_loss(const at::Tensor& x) {
  return at::relu(1 - (at::var(x, /*dim=*/0) + kLeastVariance).sqrt()).mean();
}

at::Tensor covariance_loss(const at::Tensor& x, const Sharing& sharing) {
  const mesh::Share own = mesh::share(x.size(1), sharing.rank, sharing.ranks);
  const at::Tensor centred = x - x.mean(0);
  const at::Tensor products =
      ops::counted(at::matmul(centred.t(), centred.narrow(1, own.begin, own.count())), x.size(0));
  const at::Tensor covariance = products / static_cast<double>(x.size(0) - 1);
  const at::Tensor squares = covariance.square();
  return (squares.sum() - squares.diagonal(-own.begin).sum()) *
         (static_cast<double>(sharing.ranks) / static_cast<double>(x.size(1)));
}

at::Tensor vicreg_loss(const at::Tensor& x, const at::Tensor& y, const config::Vicreg& weights,
                       const Sharing& sharing) {
  return weights.invariance * (x - y).square().mean() +
         weights.variance / 2 * (variance_loss(x) + variance_loss(y)) +
         weights.covariance / 2 * (covariance_loss(x, sharing) + covariance_loss(y, sharing));
}

Matches nearest(const at::Tensor& from, const at::Tensor& to, std::int64_t count) {
  constexpr std::int64_t kExact =
      2;  // no matrix products, which would round distances of equals apart
  const auto [distance, row] = at::cdist(from.detach(), to.detach(), 2, kExact).min(1);
  const at::Tensor order = std::get<1>(distance.sort(/*stable=*/true, 0, /*descending=*/false));
  const at::Tensor kept = order.narrow(0, 0, count);
  return {.from = kept, .to = row.index_select(0, kept)};
}

at::Tensor local_pairs(const LocalView& a, const LocalView& b, std::int64_t count) {
  std::vector<at::Tensor> columns;
  const auto add = [&](const at::Tensor& x, const at::Tensor& y, const Matches& matches) {
    columns.push_back(x.index_select(0, matches.from));
    columns.push_back(y.index_select(0, matches.to));
  };
  add(a.features, b.features, nearest(a.places, b.places, count));
  add(b.features, a.features, nearest(b.places, a.places, count));
  add(a.features, b.features, nearest(a.features, b.features, count));
  add(b.features, a.features, nearest(b.features, a.features, count));
  return at::cat(columns, 1);
}

at::Tensor local_vicreg_loss(const at::Tensor& pairs, const config::Vicreg& weights,
                             const Sharing& sharing) {
  const std::vector<at::Tensor> sides = pairs.chunk(8, 1);
  at::Tensor sum = vicreg_loss(sides[0], sides[1], weights, sharing) / 2;
  for (std::size_t i = 2; i < sides.size(); i += 2)
    sum = sum + vicreg_loss(sides[i], sides[i + 1], weights, sharing) / 2;
  return sum;
}

}  // namespace trireme::models
