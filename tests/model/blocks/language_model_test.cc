// GPT-2 and Llama blocks against what defines them: finite differences, causality, ln V, other precisions.
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/harness/bound_model.h"
#include "trireme/base/hash.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::language_model_test {
namespace {

using config::Family;
using harness::BoundModel;

config::Job job(Family family, DType compute, bool tied = true) {
  config::Job result;
  result.model = {.family = family,
                  .layers = 2,
                  .hidden = 24,
                  .heads = 4,
                  .kv_heads = family == Family::kLlama ? 2 : 4,
                  .ffn = 40,
                  .vocab = 53,
                  .seq_len = 70,
                  .tied = tied};
  result.neox.rotary_fraction = 0.7;  // four of the six channels of a head
  result.precision.compute = compute;
  result.run.micro_batch = 2;
  return result;
}

at::ScalarType scalar(DType type) {
  return type == DType::kF64 ? at::kDouble : type == DType::kF32 ? at::kFloat : at::kBFloat16;
}

BoundModel bound(const config::Job& job) {
  return BoundModel(build(job), scalar(job.precision.compute));
}

at::Tensor draw_tokens(const config::Job& job, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randint(job.model.vocab, {job.run.micro_batch, job.model.seq_len}, generator,
                     at::TensorOptions().dtype(at::kLong));
}

struct Case {
  Family family;
  bool tied;
};

class LanguageModel : public testing::TestWithParam<Case> {
 protected:
  config::Job job(DType compute) const {
    return language_model_test::job(GetParam().family, compute, GetParam().tied);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, LanguageModel,
                         testing::Values(Case{Family::kGpt, true}, Case{Family::kGpt, false},
                                         Case{Family::kLlama, true}, Case{Family::kLlama, false},
                                         Case{Family::kNeox, true}, Case{Family::kNeox, false}));

TEST_P(LanguageModel, DocumentsOfASampleAreAsIfEachStoodAlone) {
  const config::Job job = this->job(DType::kF64);
  BoundModel model = bound(job);
  const at::Tensor tokens = draw_tokens(job, 1), targets = draw_tokens(job, 2);
  at::Tensor positions = at::arange(70, at::kLong).repeat({2, 1});
  positions.narrow(1, 23, 47).sub_(23);  // documents of 23 and 47 tokens
  double alone = 0;
  for (const auto& [first, count] : {std::pair(0, 23), std::pair(23, 47)})
    alone += model
                 .loss(tokens.narrow(1, first, count).contiguous(),
                       targets.narrow(1, first, count).contiguous())
                 .item<double>();
  EXPECT_NEAR(model.loss(tokens, targets, {}, positions).item<double>(), alone, 1e-9);
  EXPECT_GT(std::abs(model.loss(tokens, targets).item<double>() - alone), 1e-6);
}

TEST_P(LanguageModel, UntrainedLossIsLogOfTheVocabulary) {
  const config::Job job = this->job(DType::kF32);
  BoundModel model = bound(job);
  const at::Tensor tokens = draw_tokens(job, 1);
  const at::Tensor loss = model.loss(tokens, draw_tokens(job, 2));
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>() / static_cast<double>(tokens.numel()), std::log(53.0), 0.02);
  EXPECT_EQ(model.activations(tokens, 2).sizes(), (std::vector<std::int64_t>{2, 70, 24}));
}

// Where the output layer is 0 no token is likelier than another.
TEST_P(LanguageModel, UniformLogitsCostTheLogOfTheVocabulary) {
  const config::Job job = this->job(DType::kF64);
  BoundModel model = bound(job);
  for (const auto& [name, param] : model.params())
    if (param.size(0) == 53) param.detach().zero_();  // the head, and the embedding that it may be
  const at::Tensor tokens = draw_tokens(job, 1);
  EXPECT_NEAR(
      model.loss(tokens, draw_tokens(job, 2)).item<double>() / static_cast<double>(tokens.numel()),
      std::log(53.0), 1e-14);
}

TEST_P(LanguageModel, TokensWithoutTargetAddNothing) {
  const config::Job job = this->job(DType::kF64);
  BoundModel model = bound(job);
  const at::Tensor tokens = draw_tokens(job, 1);
  const at::Tensor targets = draw_tokens(job, 2);
  const auto masked = [&](std::int64_t from, std::int64_t count) {
    at::Tensor some = targets.clone();
    some.narrow(1, from, count).fill_(-100);
    return model.loss(tokens, some).item<double>();
  };
  EXPECT_NEAR(masked(0, 30) + masked(30, 40), masked(0, 0), 1e-11);
  EXPECT_EQ(masked(0, 70), 0);
}

// Each parameter tensor moved along a random direction: the slope of the loss is the gradient's product.
TEST_P(LanguageModel, GradientsAgreeWithFiniteDifferences) {
  const config::Job job = this->job(DType::kF64);
  BoundModel model = bound(job);
  const at::Tensor tokens = draw_tokens(job, 1);
  const at::Tensor targets = draw_tokens(job, 2);
  {
    at::NoGradGuard no_grad;  // away from the symmetric start, where gains are 1 and biases 0
    for (const auto& [name, param] : model.params())
      param.add_(at::empty_like(param).normal_(
          0, 0.3, at::make_generator<at::CPUGeneratorImpl>(hash64(name))));
  }
  model.loss(tokens, targets).backward();
  at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  for (const auto& [name, param] : model.params()) {
    const at::Tensor direction = at::empty_like(param).normal_(
        0, 1, at::make_generator<at::CPUGeneratorImpl>(mix(7, hash64(name))));
    const auto loss_at = [&](double step) {
      const at::Tensor before = param.clone();
      param.add_(direction, step);
      const double loss = model.loss(tokens, targets).item<double>();
      param.copy_(before);
      return loss;
    };
    const double slope =
        (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
        (12 * kStep);
    const double product = (param.grad() * direction).sum().item<double>();
    EXPECT_NEAR(product, slope, 1e-6 * std::max(1.0, std::abs(slope))) << name;
  }
}

TEST_P(LanguageModel, LaterTokensDoNotChangeEarlierOutputs) {
  const config::Job job = this->job(DType::kF32);
  BoundModel model = bound(job);
  const at::Tensor tokens = draw_tokens(job, 1);
  const at::Tensor before = model.activations(tokens, 3);
  for (std::int64_t changed : {1, 40, 64, 69}) {
    at::Tensor other = tokens.clone();
    other.select(1, changed)
        .fill_((tokens.select(1, changed) + 1).remainder(53).select(0, 0).item<std::int64_t>());
    const at::Tensor after = model.activations(other, 3);
    EXPECT_TRUE(at::equal(after.narrow(1, 0, changed), before.narrow(1, 0, changed))) << changed;
    EXPECT_FALSE(at::equal(after.select(1, changed), before.select(1, changed))) << changed;
  }
}

TEST_P(LanguageModel, SamplesAreIndependentAndRunsRepeatTheirBits) {
  const config::Job job = this->job(DType::kF32);
  BoundModel model = bound(job);
  const at::Tensor tokens = draw_tokens(job, 1);
  const at::Tensor both = model.activations(tokens, 3);
  EXPECT_TRUE(at::equal(both, model.activations(tokens, 3)));
  // Beside another one; alone its rows may be added up in another order, which is the BLAS's affair.
  at::Tensor other = tokens.clone();
  other.narrow(0, 0, 1).copy_(draw_tokens(job, 2).narrow(0, 0, 1));
  EXPECT_TRUE(at::equal(both.narrow(0, 1, 1), model.activations(other, 3).narrow(0, 1, 1)));
  EXPECT_TRUE(
      at::allclose(both.narrow(0, 1, 1), model.activations(tokens.narrow(0, 1, 1), 3), 1e-5, 1e-6));
}

TEST_P(LanguageModel, Bf16FollowsFp32) {
  const config::Job wide = this->job(DType::kF32);
  BoundModel reference = bound(wide);
  BoundModel model = bound(this->job(DType::kBF16));
  const at::Tensor tokens = draw_tokens(wide, 1);
  const at::Tensor targets = draw_tokens(wide, 2);
  const at::Tensor loss = model.loss(tokens, targets);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  const at::Tensor expected = reference.loss(tokens, targets);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 2e-3 * expected.item<double>());
  loss.backward();
  expected.backward();
  for (std::size_t i = 0; i < model.params().size(); ++i) {
    const at::Tensor grad = model.params()[i].second.grad().to(at::kFloat);
    const at::Tensor exact = reference.params()[i].second.grad();
    EXPECT_LT((grad - exact).norm().item<double>(), 0.03 * exact.norm().item<double>() + 1e-3)
        << model.params()[i].first;
  }
}

TEST(GptDropout, NoiseIsAFunctionOfItsCoordinatesAndAbsentInEvaluation) {
  config::Job job = language_model_test::job(Family::kGpt, DType::kF64);
  BoundModel plain = bound(job);
  job.model.dropout = 0.3;
  BoundModel model = bound(job);
  const at::Tensor tokens = draw_tokens(job, 1);
  const auto loss = [&](const exec::BlockContext& context) {
    return model.loss(tokens, tokens, context).item<double>();
  };
  const exec::BlockContext here{.seed = 3, .step = 4, .micro_batch = 5};
  EXPECT_EQ(loss(here), loss(here));
  EXPECT_NE(loss(here), loss({.seed = 2, .step = 4, .micro_batch = 5}));
  EXPECT_NE(loss(here), loss({.seed = 3, .step = 5, .micro_batch = 5}));
  EXPECT_NE(loss(here), loss({.seed = 3, .step = 4, .micro_batch = 6}));
  EXPECT_EQ(loss({.training = false}), plain.loss(tokens, tokens).item<double>());

  const at::Tensor weight =
      model.params()[4].second;  // c_attn of the first block: before every draw
  model.loss(tokens, tokens, here).backward();
  const at::Tensor direction =
      at::empty_like(weight).normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(1));
  at::NoGradGuard no_grad;
  const auto moved = [&](double step) {
    weight.add_(direction, step);
    const double value = loss(here);
    weight.sub_(direction, step);
    return value;
  };
  const double slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
  EXPECT_NEAR((weight.grad() * direction).sum().item<double>(), slope,
              1e-6 * std::max(1.0, std::abs(slope)));
}

}  // namespace
}  // namespace trireme::blocks::language_model_test
