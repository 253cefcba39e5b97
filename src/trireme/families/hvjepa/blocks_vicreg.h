// Losses that keep embeddings from collapsing (Bardes et al. 2022, VICReg; Bardes, Ponce and LeCun 2022, VICRegL). Rows
// are samples of a global batch, of which there must be two or more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::blocks {

// Mean over columns of max(0, 1 - sqrt(variance + 1e-4)), with the unbiased variance. Shape of x: [.., rows, d];
// leading dims have statistics of their own, and the loss is their mean.
at::Tensor variance_loss(const at::Tensor& x);

// Ranks that have the same rows and share out the products of their covariances.
struct Sharing {
  int rank = 0;
  int ranks = 1;
};

// Sum of the squares of the covariances of different columns, divided by d. It is a mean over leading dims and over
// ranks, each of which computes its share alone. Shape of x: [.., rows, d].
at::Tensor covariance_loss(const at::Tensor& x, const Sharing& sharing = {});

// Weights of the terms of a loss: the paper's.
struct VicregWeights {
  double invariance = 25;
  double variance = 25;
  double covariance = 1;
};

// `invariance` times the mean square of x - y, plus `variance` and `covariance` times the means of these losses over x
// and y. Shapes: x, y [.., rows, d]. One row has no variance: its loss is the first term.
at::Tensor vicreg_loss(const at::Tensor& x, const at::Tensor& y, const VicregWeights& weights = {},
                       const Sharing& sharing = {});

// Pairs of rows, int64 [pairs] each.
struct Matches {
  at::Tensor from;
  at::Tensor to;
};
// The nearest row of `to` for each row of `from` by Euclidean distance, for the `count` nearest pairs in the order of
// the rows of `from`. Among equal pairs, those with lower rows are taken. No gradient. Shapes: from, to [rows, d]; rows
// may differ.
Matches nearest(const at::Tensor& from, const at::Tensor& to, std::int64_t count);

// Two views of one sample: what was made of its places [places, d], and where these are [places, axes].
struct LocalView {
  at::Tensor features;
  at::Tensor places;
};
enum class MatchBy { kPlace, kFeature };
// Matching features, from a to b and from b to a, side by side: [count, 4 d]. `count` is at most the places of either.
at::Tensor matched(const LocalView& a, const LocalView& b, MatchBy by, std::int64_t count);

// Mean loss of both directions of such matches of all samples, [samples, count, 4 d].
at::Tensor local_vicreg_loss(const at::Tensor& matched, config::LocalStatistics statistics,
                             const VicregWeights& weights = {}, const Sharing& sharing = {});

}  // namespace trireme::blocks
