// Losses that keep embeddings from collapsing (Bardes et al. 2022, VICReg; Bardes, Ponce and LeCun 2022, VICRegL). Rows
// are samples of a global batch, of which there must be two or more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::models {

// The mean over columns of max(0, 1 - sqrt(variance + 1e-4)), the variance unbiased. x: [rows, d].
at::Tensor variance_loss(const at::Tensor& x);

// Ranks that have the same rows and share out the columns of their covariance.
struct Sharing {
  int rank = 0;
  int ranks = 1;
};

// The sum of the squares of the covariances of different columns over d: its mean over ranks, each of which computes those
// with columns of its own alone. x: [rows, d].
at::Tensor covariance_loss(const at::Tensor& x, const Sharing& sharing = {});

// `invariance` times the mean square of x - y, and `variance` and `covariance` times the means of these losses over x and
// y. x, y: [rows, d].
at::Tensor vicreg_loss(const at::Tensor& x, const at::Tensor& y, const config::Vicreg& weights,
                       const Sharing& sharing = {});

// Pairs of rows, int64 [pairs] each.
struct Matches {
  at::Tensor from;
  at::Tensor to;
};
// Of each row of `from` the nearest row of `to` by Euclidean distance; of these pairs the `count` nearest, the nearest
// first and of equals the one of the lower row. No gradient. from, to: [rows, d], rows differing.
Matches nearest(const at::Tensor& from, const at::Tensor& to, std::int64_t count);

// Two views of one sample: what was made of its places [places, d], and where these are [places, axes].
struct LocalView {
  at::Tensor features;
  at::Tensor places;
};
// Pairs of features by place and by feature, each from a to b and from b to a, side by side: [count, 8 d]. `count` is at
// most the places of either.
at::Tensor local_pairs(const LocalView& a, const LocalView& b, std::int64_t count);

// Of such rows of all samples: the mean loss of both directions, by place and by feature added.
at::Tensor local_vicreg_loss(const at::Tensor& pairs, const config::Vicreg& weights,
                             const Sharing& sharing = {});

}  // namespace trireme::models
