// Routers that learn to cut clips of moving squares, with nothing but a reconstruction and the ratio loss to go by.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "trireme/data/loaders/samples/squares.h"
#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/hvjepa/blocks_chunks.h"
#include "trireme/families/vit/blocks_encoder.h"

namespace trireme::blocks::chunk_ratio_test {
namespace {

constexpr std::int64_t kClips = 8, kWidth = 64;
const config::Vision kVision{.image = 64, .patch = 8, .frames = 4, .tubelet = 2};

// The patches of a step's clips, [clips x 128, 384].
at::Tensor patches_of(std::int64_t step) {
  constexpr loaders::ClipSize kSize{.frames = 4, .side = 64};
  at::Tensor clips = at::empty({kClips, 3, kSize.frames, kSize.side, kSize.side}, at::kFloat);
  for (std::int64_t clip = 0; clip < kClips; ++clip)
    loaders::draw_squares(
        kSize, loaders::Draws(1, step * kClips + clip),
        {clips[clip].data_ptr<float>(), static_cast<std::size_t>(kSize.pixels())});
  return patches(clips, kVision).flatten(0, 1);
}

// Adam without weight decay.
class Adam {
 public:
  explicit Adam(std::vector<at::Tensor> params) : params_(std::move(params)) {
    for (at::Tensor& param : params_) {
      param.set_requires_grad(true);
      moments_.emplace_back(at::zeros_like(param), at::zeros_like(param));
    }
  }
  void step(double lr) {
    at::NoGradGuard no_grad;
    ++done_;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      auto& [first, second] = moments_[i];
      at::Tensor gradient = params_[i].grad();
      first.mul_(0.9).add_(gradient, 0.1);
      second.mul_(0.999).addcmul_(gradient, gradient, 0.001);
      const double scale = std::sqrt(1 - std::pow(0.999, done_)) / (1 - std::pow(0.9, done_));
      params_[i].addcdiv_(first, second.sqrt().add_(1e-8), -lr * scale);
      gradient.zero_();
    }
  }

 private:
  std::vector<at::Tensor> params_;
  std::vector<std::pair<at::Tensor, at::Tensor>> moments_;
  int done_ = 0;
};

// A tokenizer whose chunks say what the patches of their tokens are.
class Autoencoder {
 public:
  Autoencoder() {
    auto drawn = [seed = std::uint64_t{1}](std::int64_t out, std::int64_t in) mutable {
      return at::empty({out, in}, at::kFloat)
          .normal_(0, 0.05, at::make_generator<at::CPUGeneratorImpl>(seed++));
    };
    const std::int64_t features = model::patch_grid(kVision).features;
    embed_ = drawn(kWidth, features);
    gain_ = at::ones({kWidth}), bias_ = at::zeros({kWidth});
    query_ = at::eye(kWidth), key_ = at::eye(kWidth);
    pool_ = {.query = drawn(kWidth, kWidth),
             .query_bias = at::zeros({kWidth}),
             .kv = drawn(2 * kWidth, kWidth),
             .kv_bias = at::zeros({2 * kWidth})};
    say_ = drawn(features, kWidth);
  }
  std::vector<at::Tensor> params() const {
    return {embed_,           gain_,    bias_,         query_, key_, pool_.query,
            pool_.query_bias, pool_.kv, pool_.kv_bias, say_};
  }

  struct Result {
    at::Tensor distance, ratio_loss;
    double share = 0;  // chunks of tokens
  };
  Result operator()(const at::Tensor& patches, std::int64_t ratio) const {
    const std::int64_t rows = patches.size(0), tokens = rows / kClips;
    const GridRows grid(at::arange(rows, at::kLong), at::arange(0, rows + 1, tokens, at::kLong),
                        model::patch_grid(kVision));
    const at::Tensor x = at::layer_norm(at::linear(patches, embed_), {kWidth}, gain_, bias_);
    const Forest trees = forest(x, query_, key_, grid, {.ratio = ratio});
    const at::Tensor chunks = pool(x, trees, grid, pool_).x;
    const at::Tensor own =
        chunk_of_rows(trees.boundary).index_select(0, trees.root);  // of every token
    const at::Tensor sure = straight_through_confidence(trees.p, trees.boundary).unsqueeze(1);
    const at::Tensor said = at::linear(chunks.index_select(0, own) * sure, say_);
    return {.distance = (said - patches).square().mean(),
            .ratio_loss =
                ratio_losses(trees.p, trees.boundary, grid.sequences, static_cast<double>(ratio))
                    .mean(),
            .share = static_cast<double>(chunks.size(0)) / static_cast<double>(rows)};
  }

 private:
  at::Tensor embed_, gain_, bias_, query_, key_, say_;
  PoolParams pool_;
};

// Oracle 14: within 0.015 of 1 / N by step 80.
TEST(ChunkRatio, ComesToWhatTheRouterAimsAt) {
  for (const std::int64_t ratio : {4, 8, 16}) {
    const Autoencoder model;
    Adam adam(model.params());
    double first = 0, last = 0, share = 0;
    for (int step = 0; step < 80; ++step) {
      const Autoencoder::Result result = model(patches_of(step), ratio);
      (result.distance + result.ratio_loss).backward();
      adam.step(2e-2);
      if (step == 0) first = result.distance.item<double>();
      if (step >= 70) last += result.distance.item<double>() / 10, share += result.share / 10;
    }
    EXPECT_NEAR(share, 1.0 / static_cast<double>(ratio), 0.015) << ratio;
    EXPECT_LT(last, 0.6 * first) << ratio;  // and chunks say more than nothing
  }
}

}  // namespace
}  // namespace trireme::blocks::chunk_ratio_test
