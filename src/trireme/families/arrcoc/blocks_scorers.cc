// Suffixes: b sample, p region, k scorer.
#include "trireme/families/arrcoc/blocks_scorers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cosine_similarity.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/families/arrcoc/blocks_pictures.h"
#include "trireme/families/arrcoc/blocks_texture.h"
#include "trireme/families/arrcoc/keys_checks.h"
#include "trireme/ops/flop_count.h"

namespace trireme::blocks {
namespace {

constexpr double kTemperature =
    0.5;  // that tensions are divided by before they share out the budget

// Which regions are around one, rows that add up to 1: four, or eight with corners.
at::Tensor around(std::int64_t grid, bool corners, const at::TensorOptions& options) {
  const at::Tensor matrix = at::zeros({grid * grid, grid * grid}, at::kDouble);
  double* const to = matrix.data_ptr<double>();
  for (std::int64_t p = 0; p < grid * grid; ++p)
    for (std::int64_t q = 0; q < grid * grid; ++q) {
      const std::int64_t down = std::abs(p / grid - q / grid),
                         right = std::abs(p % grid - q % grid);
      const bool near = corners ? std::max(down, right) == 1 : down + right == 1;
      to[p * grid * grid + q] = near ? 1 : 0;
    }
  return (matrix / matrix.sum(1, true)).to(options);
}

// [b, c, s, s] -> [b, regions, c, pixels].
at::Tensor by_region(const at::Tensor& x, std::int64_t grid) {
  const std::int64_t b = x.size(0), c = x.size(1), side = x.size(2) / grid;
  return x.reshape({b, c, grid, side, grid, side})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({b, grid * grid, c, side * side});
}

// Of values in [0, 1], [.., pixels] -> [.., 1]: entropy over triangular bins, of its largest.
at::Tensor entropy_of(const at::Tensor& values) {
  constexpr std::int64_t kBins = 32;
  std::vector<at::Tensor> shares;
  const at::Tensor scaled = values * static_cast<double>(kBins - 1);
  for (std::int64_t bin = 0; bin < kBins; ++bin)
    shares.push_back((1 - (scaled - static_cast<double>(bin)).abs()).clamp_min(0).mean(-1, true));
  const at::Tensor share = at::cat(shares, -1);
  return -(share * share.clamp_min(1e-12).log()).sum(-1, true) / std::log(double{kBins});
}

at::Tensor deviation(const at::Tensor& x, std::int64_t dim) {
  const at::Tensor apart = x - x.mean(dim, true);
  return at::sqrt(apart.square().mean(dim) + 1e-12);
}

}  // namespace

Levels levels_of(const config::Arrcoc& arrcoc) {
  return {.least = arrcoc.least, .most = arrcoc.most, .budget = arrcoc.budget};
}

RegionFacts region_facts(const at::Tensor& images, const config::Arrcoc& arrcoc) {
  const at::Tensor seen = at::zeros({kTextureChannels}, at::kDouble);
  const auto chosen = config::texture_channels(arrcoc);
  for (std::size_t channel = 0; channel < chosen.size(); ++channel)
    seen.data_ptr<double>()[channel] = chosen[channel] ? 1 : 0;
  const at::Tensor mask = seen.to(images.options()).view({1, -1, 1, 1});
  std::vector<at::Tensor> all_means, deviations;
  at::Tensor entropy;
  texture_by_groups(images, kMiddle, [&](const ChannelGroup& group, const at::Tensor& all) {
    const at::Tensor channels = all * mask.narrow(1, group.first, group.count);
    const at::Tensor texels = by_region(channels, arrcoc.grid);
    all_means.push_back(texels.mean(3));
    deviations.push_back(deviation(texels, 3));
    if (group.first == 0)
      entropy = entropy_of(by_region(luma(channels).unsqueeze(1), arrcoc.grid).squeeze(2));
  });
  const at::Tensor means = at::cat(all_means, 2);
  const at::Tensor shown = means.narrow(2, 0, 10);
  const at::Tensor others =
      ops::counted(at::matmul(around(arrcoc.grid, true, images.options()), shown), shown.size(1));
  const at::Tensor apart = (shown - others).square().sum(2, true).sqrt();
  return {.statistics = at::cat({means, at::cat(deviations, 2)}, 2),
          .entropy = entropy,
          .salience = at::cat({means.narrow(2, 8, 1), apart, 1 - means.narrow(2, 12, 1)}, 2)};
}

// The parameters one after the other, in the type that scores have.
class Scorers::Reader {
 public:
  Reader(const Scorers& scorers, at::ScalarType type) : scorers_(scorers), type_(type) {}
  at::Tensor tensor() { return scorers_.param(next_++).to(type_); }
  at::Tensor linear(const at::Tensor& x) {
    const at::Tensor weight = tensor();
    return ops::counted(at::linear(x, weight, tensor()), x.size(-1));
  }
  at::Tensor product(const at::Tensor& x) {
    return ops::counted(at::linear(x, tensor()), x.size(-1));
  }
  at::Tensor norm(const at::Tensor& x) {
    const at::Tensor gain = tensor();
    return at::layer_norm(x, {x.size(-1)}, gain, tensor());
  }
  at::Tensor perceptron(const at::Tensor& x) {
    const at::Tensor inner = at::gelu(linear(x));
    return at::gelu(linear(inner));
  }
  // Score of numbers with a steepness of their own and of features.
  at::Tensor score(const at::Tensor& numbers, const at::Tensor& features) {
    const at::Tensor own = product(numbers);
    return at::sigmoid(own + linear(features));
  }

 private:
  const Scorers& scorers_;
  at::ScalarType type_;
  std::size_t next_ = 0;
};

Scorers::Scorers(const config::Job& job, const plan::Node& node,
                 std::shared_ptr<const Across> across)
    : BoundBlock(std::move(across)),
      arrcoc_(job.arrcoc),
      charges_(node.writes.size() > 2),
      steps_(job.run.steps),
      compute_(comm::scalar_type(job.precision.compute)) {}

at::Tensor Scorers::scores(const RegionFacts& facts, const at::Tensor& question,
                           Reader& next) const {
  const config::Scored wanted = config::scored(arrcoc_);
  const at::Tensor normed = next.norm(facts.statistics);
  std::vector<at::Tensor> scores;
  at::Tensor features;
  if (wanted.information || wanted.salience) features = next.perceptron(normed);
  if (wanted.information) scores.push_back(next.score(facts.entropy - 0.5, features));
  if (wanted.salience) scores.push_back(next.score(facts.salience, features));
  if (wanted.coupling) {
    const at::Tensor region = next.product(next.perceptron(normed));
    const at::Tensor asked = next.product(question).unsqueeze(1);
    const at::Tensor cosine = at::cosine_similarity(region, asked, 2).unsqueeze(2);
    const at::Tensor steep = next.tensor() * cosine;
    scores.push_back(at::sigmoid(steep + next.tensor()));
  }
  return at::cat(scores, 2);
}

Scorers::Tension Scorers::balance(const at::Tensor& s_bpk, const at::Tensor& question,
                                  Reader& next) const {
  const std::int64_t n = s_bpk.size(2);
  const at::Tensor asked = next.product(question);
  const at::Tensor summary = at::cat({s_bpk.mean(1), s_bpk.amax(1), deviation(s_bpk, 1), asked}, 1);
  const at::Tensor inner = at::gelu(next.linear(summary));
  const at::Tensor out = next.linear(inner);
  const at::Tensor weights = at::softplus(out.narrow(1, 0, 2 * n)).unsqueeze(1);
  const at::Tensor tensions = at::sigmoid(out.narrow(1, 2 * n, out.size(1) - 2 * n));
  const at::Tensor for_detail = (weights.narrow(2, 0, n) * s_bpk).sum(2);
  const at::Tensor against = (weights.narrow(2, n, n) * (1 - s_bpk)).sum(2);
  const at::Tensor z = for_detail - against;
  const at::Tensor focus = tensions.narrow(1, 1, 1);
  const at::Tensor near =
      ops::counted(at::matmul(z, around(arrcoc_.grid, false, z.options()).t()), z.size(-1));
  return {.z = focus * z + (1 - focus) * near,
          .deviation = 0.5 * tensions.narrow(1, 0, 1),
          .used = arrcoc_.learn_budget ? tensions.narrow(1, 2, 1) : at::Tensor()};
}

Scorers::Tension Scorers::tension(const std::vector<at::Tensor>& inputs) const {
  const at::Tensor& noise = inputs[0];
  switch (arrcoc_.allocation) {
    case config::Allocation::kUniform: return {.z = at::zeros_like(noise)};
    case config::Allocation::kRandom: return {.z = noise};
    case config::Allocation::kLearned: break;
  }
  const at::ScalarType type = compute_ == at::kDouble ? at::kDouble : at::kFloat;
  Reader next(*this, type);
  const at::Tensor question = inputs[2].to(type);
  at::Tensor images = inputs[1].to(type);
  if (inputs.size() > 3)
    images = Pictures(images, inputs[3], 1).seen(std::min(images.size(2), kTextureSide));
  const at::Tensor s_bpk = scores(region_facts(images, arrcoc_), question, next);
  return balance(s_bpk, question, next);
}

// The budget is charged by the share that is used. Evenness of the allocation, its entropy divided by the largest
// possible, is rewarded, less and less in the first half of the run.
at::Tensor Scorers::charge(const at::Tensor& counts, const at::Tensor& budget,
                           const exec::BlockContext& context) const {
  at::Tensor cost = at::zeros({counts.size(0)}, counts.options());
  if (!context.training) return cost;
  if (budget.defined())
    cost = cost + arrcoc_.budget_weight / static_cast<double>(arrcoc_.budget) * budget.squeeze(1);
  const double begun = 2 * static_cast<double>(context.step) / static_cast<double>(steps_);
  const double gained = arrcoc_.entropy_weight * std::max(0.0, 1 - begun);
  if (gained == 0) return cost;
  const at::Tensor share = counts / counts.sum(1, true);
  const at::Tensor entropy =
      -(share * share.log()).sum(1) / std::log(static_cast<double>(counts.size(1)));
  return cost - gained * entropy;
}

std::vector<at::Tensor> Scorers::forward(const std::vector<at::Tensor>& inputs,
                                         const exec::BlockContext& context) {
  const Levels levels = levels_of(arrcoc_);
  const Tension tension = this->tension(inputs);
  at::Tensor budget;
  if (tension.used.defined()) {
    const auto least = static_cast<double>(inputs[0].size(1) * levels.least_tokens());
    budget = least + (static_cast<double>(levels.budget) - least) * tension.used.to(at::kDouble);
  }
  const auto share_out = [&](const at::Tensor& z) {
    return soft_counts(z, levels, kTemperature, budget);
  };
  const at::Tensor counts = share_out(tension.z);
  at::Tensor chosen = counts;
  if (tension.deviation.defined() && arrcoc_.explore && context.training) {
    at::NoGradGuard no_grad;
    chosen = share_out(tension.z + tension.deviation * inputs[0]);
  }
  const double range = static_cast<double>(levels.most_tokens() - levels.least_tokens());
  const at::Tensor shares = (counts - static_cast<double>(levels.least_tokens())) / range;
  std::vector<at::Tensor> written = {
      shares.to(compute_), hard_levels(chosen, levels).to(inputs[0].device()).to(compute_)};
  if (charges_) written.push_back(charge(counts, budget, context).to(compute_));
  return written;
}

}  // namespace trireme::blocks
