// VICReg's terms against closed forms.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <utility>
#include <vector>

#include "trireme/families/hvjepa/blocks_vicreg.h"

namespace trireme::blocks::vicreg_test {
namespace {

const auto kF64 = at::TensorOptions().dtype(at::kDouble);

at::Tensor drawn(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), kF64);
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

template <typename Loss>
at::Tensor gradient(const at::Tensor& x, const Loss& loss) {
  const at::Tensor leaf = x.detach().clone().set_requires_grad(true);
  loss(leaf).backward();
  return leaf.grad();
}

LocalView collapsed() { return {.features = at::ones({6, 8}, kF64), .places = drawn({6, 3}, 3)}; }

// By place and by feature, of samples with two views each.
double local_loss(const std::vector<std::pair<LocalView, LocalView>>& samples, std::int64_t count,
                  const VicregWeights& weights = {},
                  config::LocalStatistics statistics = config::LocalStatistics::kMatch) {
  double sum = 0;
  for (const MatchBy by : {MatchBy::kPlace, MatchBy::kFeature}) {
    std::vector<at::Tensor> all;
    for (const auto& [a, b] : samples) all.push_back(matched(a, b, by, count));
    sum += local_vicreg_loss(at::stack(all), statistics, weights).item<double>();
  }
  return sum;
}

// Oracle 15: what collapses has no variance, and nothing else.
TEST(Vicreg, CollapsedBatchesCostAsMuchAsVarianceCan) {
  const at::Tensor x = at::ones({5, 7}, kF64);
  EXPECT_NEAR(variance_loss(x).item<double>(), 0.99, 1e-15);
  EXPECT_EQ(covariance_loss(x).item<double>(), 0);
  const double clips = vicreg_loss(x, x, {}).item<double>();
  EXPECT_NEAR(clips, 24.75, 1e-13);
  for (const auto statistics :
       {config::LocalStatistics::kMatch, config::LocalStatistics::kPooled}) {
    const double chunks =
        local_loss({{collapsed(), collapsed()}, {collapsed(), collapsed()}}, 4, {}, statistics);
    EXPECT_NEAR(chunks, 49.5, 1e-13);
    EXPECT_NEAR(0.75 * clips + 0.25 * chunks, 30.9375, 1e-13);
  }
}

// Clips that all have the same features, which differ from place to place alone. The variance over the clips of every match
// is none, and costs 25 x 0.99 by place and as much by feature; the variance over all matches together is that of places.
TEST(Vicreg, FeaturesOfThePlaceAloneCostAsMuchAsCollapsedOnes) {
  const at::Tensor features = 3 * drawn({6, 4}, 5), places = drawn({6, 3}, 3);
  std::vector<std::pair<LocalView, LocalView>> samples;
  for (std::uint64_t clip = 0; clip < 5; ++clip) {
    const auto seen = [&](std::uint64_t seed) {
      return LocalView{.features = features, .places = places + 1e-6 * drawn({6, 3}, seed)};
    };
    samples.emplace_back(seen(20 + clip), seen(30 + clip));
  }
  std::vector<at::Tensor> by_place;
  for (const auto& [a, b] : samples) by_place.push_back(matched(a, b, MatchBy::kPlace, 6));
  EXPECT_NEAR(
      local_vicreg_loss(at::stack(by_place), config::LocalStatistics::kMatch).item<double>(), 24.75,
      1e-13);
  EXPECT_NEAR(local_loss(samples, 6), 49.5, 1e-13);
  EXPECT_LT(local_loss(samples, 6, {.invariance = 25, .variance = 25, .covariance = 0},
                       config::LocalStatistics::kPooled),
            1);
}

// Values of vicreg_oracle.py.
TEST(Vicreg, LocalLossesAreThoseOfTheOriginal) {
  const auto waves = [](std::int64_t axes, double step, double start) {
    return (start + step * at::arange(4 * 5 * axes, kF64)).sin().view({4, 5, axes});
  };
  const at::Tensor a = waves(3, 0.37, 1), b = waves(3, 0.53, 2);
  const at::Tensor at_a = waves(2, 0.71, 3), at_b = waves(2, 0.29, 4);
  std::vector<at::Tensor> by_place, by_feature;
  for (std::int64_t clip = 0; clip < 4; ++clip) {
    const LocalView one{.features = a[clip], .places = at_a[clip]};
    const LocalView other{.features = b[clip], .places = at_b[clip]};
    by_place.push_back(matched(one, other, MatchBy::kPlace, 3));
    by_feature.push_back(matched(one, other, MatchBy::kFeature, 5));
  }
  EXPECT_NEAR(
      local_vicreg_loss(at::stack(by_place), config::LocalStatistics::kMatch).item<double>(),
      37.946622568418974, 1e-11);
  EXPECT_NEAR(
      local_vicreg_loss(at::stack(by_feature), config::LocalStatistics::kMatch).item<double>(),
      9.967162535629697, 1e-11);
}

// One clip has no variance; its views have a distance.
TEST(Vicreg, OfOneClipTheDistanceIsLeft) {
  const at::Tensor x = drawn({1, 6}, 1), y = drawn({1, 6}, 2);
  EXPECT_NEAR(vicreg_loss(x, y, {}).item<double>(), 25 * (x - y).square().mean().item<double>(),
              1e-14);
}

TEST(Vicreg, TwoOppositeRowsCostAsWorkedOutByHand) {
  const at::Tensor one = at::ones({4}, kF64);
  const at::Tensor x = at::stack({0.3 * one, -0.3 * one});
  EXPECT_NEAR(variance_loss(x).item<double>(), 1 - std::sqrt(2 * 0.09 + 1e-4), 1e-15);
  EXPECT_NEAR(variance_loss(x).item<double>(), 0.575618, 1e-6);
  EXPECT_NEAR(covariance_loss(x).item<double>(), 4 * std::pow(0.3, 4) * 3, 1e-15);
}

TEST(Vicreg, OrthogonalColumnsOfLengthCostNothing) {
  const at::Tensor hadamard =
      at::tensor({1, 1, 1, -1, 1, -1, 1, -1, -1, -1, -1, 1}, kF64).view({4, 3});
  EXPECT_EQ(variance_loss(hadamard).item<double>(), 0);
  EXPECT_NEAR(covariance_loss(hadamard).item<double>(), 0, 1e-15);
}

// Oracle 16.
TEST(Vicreg, GradientsAreTheClosedForms) {
  const std::int64_t rows = 9, d = 6;
  const at::Tensor x = drawn({rows, d}, 1);
  const at::Tensor centred = x - x.mean(0);
  const at::Tensor deviation = (at::var(x, 0) + 1e-4).sqrt();
  const at::Tensor variance =
      -centred * (deviation < 1) / (static_cast<double>((rows - 1) * d) * deviation);
  EXPECT_LT(apart(gradient(x, variance_loss), variance), 1e-15);
  at::Tensor covariance = at::matmul(centred.t(), centred) / static_cast<double>(rows - 1);
  covariance.fill_diagonal_(0);
  EXPECT_LT(apart(gradient(x, [](const at::Tensor& y) { return covariance_loss(y); }),
                  4.0 / static_cast<double>((rows - 1) * d) * at::matmul(centred, covariance)),
            1e-15);
}

// As many of its columns on each rank as there are, or none.
TEST(Vicreg, RanksShareOutACovariance) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{9, 5}, {4, 9}, {3, 4, 6}}) {
    const at::Tensor x = drawn(shape, 8);
    const at::Tensor whole = gradient(x, [](const at::Tensor& y) { return covariance_loss(y); });
    for (const int ranks : {2, 3, 7}) {
      double loss = 0;
      at::Tensor sum = at::zeros_like(x);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto part = [&](const at::Tensor& y) {
          return covariance_loss(y, {.rank = rank, .ranks = ranks}) / ranks;
        };
        loss += part(x).item<double>();
        sum += gradient(x, part);
      }
      EXPECT_NEAR(loss, covariance_loss(x).item<double>(), 1e-13);
      EXPECT_LT(apart(sum, whole), 1e-13);
    }
  }
}

// Fewer rows than columns, and matches one by one: as the definition says, column by column.
TEST(Vicreg, CovariancesOfMatchesAreMeansOverThem) {
  const at::Tensor x = drawn({3, 4, 6}, 11);
  double mean = 0;
  for (std::int64_t match = 0; match < 3; ++match) {
    const at::Tensor centred = x[match] - x[match].mean(0);
    at::Tensor covariance = at::matmul(centred.t(), centred) / 3;
    covariance.fill_diagonal_(0);
    mean += covariance.square().sum().item<double>() / 6 / 3;
  }
  EXPECT_NEAR(covariance_loss(x).item<double>(), mean, 1e-13);
}

TEST(Vicreg, IdenticalViewsMatchThemselvesAndAreOneDistanceApart) {
  const at::Tensor places = drawn({7, 3}, 2);
  const Matches matches = nearest(places, places, 7);
  EXPECT_TRUE(matches.from.equal(at::arange(7, at::kLong)));
  EXPECT_TRUE(matches.to.equal(matches.from));
  const LocalView view{.features = drawn({7, 4}, 4), .places = places};
  const VicregWeights only{.invariance = 25, .variance = 0, .covariance = 0};
  EXPECT_EQ(local_loss({{view, view}, {view, view}}, 5, only), 0);
}

// Of 0, 10, 21 to 20, 1 and 9: distances 1, 1 and 1, then of 0, 10, 25 1, 1 and 5.
TEST(Vicreg, TheNearestMatchesAreKeptInTheOrderOfRows) {
  const at::Tensor to = at::tensor({20.0, 1.0, 9.0}, kF64).view({3, 1});
  const Matches near = nearest(at::tensor({25.0, 10.5, 0.0}, kF64).view({3, 1}), to, 2);
  EXPECT_TRUE(near.from.equal(at::tensor({1, 2}, at::kLong)));
  EXPECT_TRUE(near.to.equal(at::tensor({2, 1}, at::kLong)));
}

}  // namespace
}  // namespace trireme::blocks::vicreg_test
