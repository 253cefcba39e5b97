// Towers against what defines them: finite differences, pooling as it is written down, closed forms of contrastive losses.
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/harness/bound_model.h"
#include "trireme/base/hash.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/families/clip/blocks.h"
#include "trireme/families/vit/blocks.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::towers_test {
namespace {

using harness::BoundModel;
using Sets = std::vector<std::string>;
using Tensors = std::vector<at::Tensor>;

at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed, double std = 1) {
  return at::empty(shape, at::kDouble)
      .normal_(0, std, at::make_generator<at::CPUGeneratorImpl>(seed));
}

config::Job job_of(const std::string& family, const Sets& sets) {
  config::Job job;
  const bool clip = family == "clip";
  for (const std::string& set :
       {"model.family=" + family, std::string(clip ? "data.source=scenes" : "data.source=stripes")})
    config::apply_set(job, set);
  for (const char* set : {"vision.image=12", "vision.patch=4", "vision.hidden=24", "vision.heads=3",
                          "vision.layers=1", "vision.ffn=40", "run.micro_batch=3",
                          "run.global_batch=3", "precision.compute=fp64"})
    config::apply_set(job, set);
  if (clip)
    for (const char* set : {"model.seq_len=55", "model.layers=1", "model.hidden=16",
                            "model.heads=2", "contrastive.width=10"})
      config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, config::synthetic_source(job.data.source)->facts);
}

TEST(Towers, RefuseHalfPrecisionOnACpu) {
  const auto build_in = [](const char* compute) {
    build(job_of("vit", {std::string("precision.compute=") + compute}));
  };
  EXPECT_THAT(
      [&] { build_in("fp16"); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("family vit in fp16 only on GPUs;")));
  EXPECT_NO_THROW(build_in("bf16"));
}

// The loss of a bound model of any shape, as one autograd graph.
at::Tensor loss_of(BoundModel& model, const Tensors& inputs, exec::Counts* counts = nullptr) {
  const plan::Program& program = model.model().spec.program;
  std::vector<at::Tensor> values(program.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i];
  at::Tensor last;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    Tensors reads;
    for (const plan::ValueId id : program.nodes[n].reads) reads.push_back(values[id]);
    last = model.block(n).forward(reads, {.counts = program.nodes[n].loss ? counts : nullptr})[0];
    values[program.nodes[n].writes[0]] = last;
  }
  return last;
}

Tensors inputs_of(const config::Job& job) {
  const at::Tensor images = normal({3, 3, job.vision.frames, 12, 12}, 1);
  if (job.model.family == config::Family::kVit)
    return {images, torch::tensor({1, 4, 0}, at::kLong)};
  const at::Tensor tokens = normal({3, 55}, 2).abs().mul(80).to(at::kLong).clamp_max(255);
  return {images, tokens, torch::tensor({54, 7, 0}, at::kLong)};
}

void leave_the_start(const BoundModel& model) {
  at::NoGradGuard no_grad;
  for (const auto& [name, param] : model.params())
    param.add_(normal(param.sizes(), hash64(name), 0.2));
}

struct Case {
  std::string family;
  Sets sets;
};

class Tower : public testing::TestWithParam<Case> {};

// Each parameter tensor moved along a random direction: the slope of the loss is the gradient's product.
TEST_P(Tower, GradientsAgreeWithFiniteDifferences) {
  const config::Job job = job_of(GetParam().family, GetParam().sets);
  BoundModel model(build(job), at::kDouble);
  leave_the_start(model);
  const Tensors inputs = inputs_of(job);
  loss_of(model, inputs).backward();
  at::NoGradGuard no_grad;
  constexpr double kStep = 1e-4;
  for (const auto& [name, param] : model.params()) {
    const at::Tensor direction = normal(param.sizes(), mix(7, hash64(name)));
    const auto loss_at = [&](double step) {
      const at::Tensor before = param.clone();
      param.add_(direction, step);
      const double loss = loss_of(model, inputs).item<double>();
      param.copy_(before);
      return loss;
    };
    const double slope =
        (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
        (12 * kStep);
    ASSERT_TRUE(param.grad().defined()) << name;
    const double product = (param.grad() * direction).sum().item<double>();
    EXPECT_NEAR(product, slope, 1e-6 * std::max(1.0, std::abs(slope))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Tower,
    testing::Values(
        Case{"vit", {}}, Case{"vit", {"vision.pooling=class", "vision.pre_norm=true"}},
        Case{"vit", {"vision.pooling=attention", "vision.activation=gelu_tanh"}},
        Case{"vit",
             {"vision.positions=rotary", "vision.pooling=class", "vision.frames=4",
              "vision.tubelet=2"}},
        Case{"vit", {"vision.positions=rotary_compat"}},
        Case{"clip",
             {"vision.pooling=class", "vision.pre_norm=true", "vision.activation=quick_gelu"}},
        Case{"clip", {"contrastive.loss=siglip", "vision.pooling=attention"}},
        Case{"clip",
             {"contrastive.loss=siglip", "vision.pooling=attention", "contrastive.width=24"}}));

TEST(Vit, SamplesWithoutLabelAddNothing) {
  const config::Job job = job_of("vit", {});
  BoundModel model(build(job), at::kDouble);
  leave_the_start(model);
  Tensors inputs = inputs_of(job);
  const auto with_labels = [&](std::initializer_list<std::int64_t> labels) {
    inputs[1] = torch::tensor(std::vector<std::int64_t>(labels), at::kLong);
    exec::Counts counts(1);
    const double loss = loss_of(model, inputs, &counts).item<double>();
    return std::pair(loss, counts.all()[0].of);
  };
  const auto all = with_labels({1, 4, 0}), one = with_labels({-100, 4, -100}),
             two = with_labels({1, -100, 0});
  EXPECT_NEAR(one.first + two.first, all.first, 1e-12);
  EXPECT_EQ(all.second, 3);
  EXPECT_EQ(one.second, 1);
}

TEST(Vit, CountsRightAnswers) {
  const config::Job job = job_of("vit", {});
  BoundModel model(build(job), at::kDouble);
  for (const auto& [name, param] : model.params())
    if (name == "head.bias") param.detach()[4] = 100;
  exec::Counts counts(1);
  loss_of(model, inputs_of(job), &counts);
  EXPECT_EQ(counts.all()[0].sum, 1);  // of labels 1, 4 and 0
  EXPECT_EQ(counts.all()[0].of, 3);
}

// Every frame's tokens see all others, and a class token stands first.
TEST(PatchEmbed, PutsClassTokenAndPositionsWhereTheyBelong) {
  const config::Job job = job_of("vit", {"vision.pooling=class"});
  PatchEmbed embed(job.vision, std::make_shared<Across>(job.model));
  const at::Tensor weight = normal({24, 48}, 1), bias = normal({24}, 2), token = normal({1, 24}, 3),
                   table = normal({10, 24}, 4), images = normal({2, 3, 1, 12, 12}, 5);
  embed.bind({weight, bias, token, table});
  const at::Tensor x = embed.forward({images}, {})[0];
  ASSERT_EQ(x.sizes(), (std::vector<std::int64_t>{2, 10, 24}));
  EXPECT_LT((x.select(1, 0) - (token + table[0])).abs().max().item<double>(), 1e-14);
  const at::Tensor patch = images.slice(3, 4, 8).slice(4, 8, 12)[1].flatten();  // row 1, column 2
  const at::Tensor expected = at::matmul(weight, patch) + bias + table[1 + 1 * 3 + 2];
  EXPECT_LT((x[1][1 + 1 * 3 + 2] - expected).abs().max().item<double>(), 1e-13);
}

// The head of SigLIP: softmax of one query's scores over the tokens, norm and MLP.
TEST(AttentionPooling, IsItsFormula) {
  const config::Job job = job_of(
      "clip", {"contrastive.loss=siglip", "vision.pooling=attention", "contrastive.width=24"});
  ImageFeatures head(job.vision, std::make_shared<Across>(job.model));
  Tensors p;
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{24},
                                                                                       {24},
                                                                                       {1, 24},
                                                                                       {24, 24},
                                                                                       {24},
                                                                                       {48, 24},
                                                                                       {48},
                                                                                       {24, 24},
                                                                                       {24},
                                                                                       {24},
                                                                                       {24},
                                                                                       {40, 24},
                                                                                       {40},
                                                                                       {24, 40},
                                                                                       {24}})
    p.push_back(normal(shape, 20 + p.size(), 0.4));
  head.bind(p);
  const at::Tensor x = normal({2, 9, 24}, 3);
  const at::Tensor ours = head.forward({x}, {})[0];
  const auto norm = [](const at::Tensor& y, const at::Tensor& gain, const at::Tensor& bias) {
    const at::Tensor centred = y - y.mean(-1, true);
    return centred / (centred.pow(2).mean(-1, true) + 1e-6).sqrt() * gain + bias;
  };
  const at::Tensor tokens = norm(x, p[0], p[1]);
  const at::Tensor query = at::matmul(p[2], p[3].t()) + p[4];
  const at::Tensor kv = at::matmul(tokens, p[5].t()) + p[6];
  at::Tensor mixed = at::zeros({2, 24}, at::kDouble);
  for (int sample = 0; sample < 2; ++sample)
    for (int head_of = 0; head_of < 3; ++head_of) {
      const auto own = [&](const at::Tensor& y) { return y.narrow(-1, 8 * head_of, 8); };
      const at::Tensor keys = own(kv[sample].narrow(1, 0, 24)),
                       values = own(kv[sample].narrow(1, 24, 24));
      const at::Tensor chance = at::softmax(at::matmul(keys, own(query)[0]) / std::sqrt(8.0), 0);
      own(mixed[sample]).copy_(at::matmul(chance, values));
    }
  const at::Tensor y = at::matmul(mixed, p[7].t()) + p[8];
  const at::Tensor up = at::matmul(norm(y, p[9], p[10]), p[11].t()) + p[12];
  const at::Tensor gelu = up * 0.5 * (1 + at::erf(up / std::sqrt(2.0)));
  const at::Tensor expected = y + at::matmul(gelu, p[13].t()) + p[14];
  ASSERT_EQ(ours.sizes(), expected.sizes());
  EXPECT_LT((ours - expected).abs().max().item<double>(), 1e-12);
}

double contrastive(config::ContrastiveLoss loss, const at::Tensor& images,
                   const at::Tensor& captions, const Tensors& params,
                   exec::Counts* counts = nullptr) {
  ContrastiveLoss block(loss, std::make_shared<Across>(config::Model{}));
  block.bind(params);
  return block.forward({images, captions}, {.counts = counts})[0].item<double>();
}

at::Tensor number(double value) { return at::full({1}, value, at::kDouble); }

TEST(ContrastiveLoss, OfClipIsKnownForOneHotFeatures) {
  for (const std::int64_t b : {2, 8, 64})
    for (const double scale : {1.0, 1 / 0.07, 50.0}) {
      const at::Tensor features = at::eye(b, at::kDouble) * 3;  // lengths do not matter
      exec::Counts counts(1);
      const double loss = contrastive(config::ContrastiveLoss::kClip, features, features,
                                      {number(std::log(scale))}, &counts);
      const double each = std::log1p(static_cast<double>(b - 1) * std::exp(-scale));
      EXPECT_NEAR(loss / static_cast<double>(b), each, 1e-12) << b << " " << scale;
      EXPECT_EQ(counts.all()[0].sum, b);
    }
  // Pairs that are mixed up.
  const at::Tensor features = at::eye(3, at::kDouble);
  exec::Counts counts(1);
  const double crossed = contrastive(config::ContrastiveLoss::kClip, features, features.roll(1, 0),
                                     {number(0)}, &counts);
  EXPECT_NEAR(crossed / 3, std::log(2 + M_E), 1e-12);
  EXPECT_EQ(counts.all()[0].sum, 0);
}

TEST(ContrastiveLoss, OfSiglipBeginsAsWrittenDown) {
  for (const std::int64_t b : {8, 256}) {
    const at::Tensor images = at::zeros({b, 2}, at::kDouble), captions = images.clone();
    images.select(1, 0).fill_(1);
    captions.select(1, 1).fill_(1);  // nothing is like anything
    const double loss = contrastive(config::ContrastiveLoss::kSiglip, images, captions,
                                    {number(std::log(10)), number(-10)}) /
                        static_cast<double>(b);
    const double expected =
        std::log1p(std::exp(10.0)) + static_cast<double>(b - 1) * std::log1p(std::exp(-10.0));
    EXPECT_NEAR(loss, expected, 1e-12 * expected);
    if (b == 8) {
      EXPECT_NEAR(loss, 10.000363, 5e-7);
    }
  }
  const double large = std::log1p(std::exp(10.0)) + 32767 * std::log1p(std::exp(-10.0));
  EXPECT_NEAR(large, 11.487632, 1e-6);
}

// What fills up a held-out batch changes neither loss nor count, wherever it stands.
TEST(ContrastiveLoss, SeesOnlySamplesThatAreThere) {
  const at::Tensor images = normal({5, 4}, 1), captions = normal({5, 4}, 2);
  const at::Tensor copies = images.narrow(0, 0, 3), nothing = at::zeros({3, 4}, at::kDouble);
  for (const auto& [loss, params] :
       {std::pair(config::ContrastiveLoss::kClip, Tensors{number(2)}),
        std::pair(config::ContrastiveLoss::kSiglip, Tensors{number(2), number(-3)})}) {
    exec::Counts alone(1), behind(1), before(1);
    const double expected = contrastive(loss, images, captions, params, &alone);
    const auto filled = [&](const Tensors& x, const Tensors& t, exec::Counts& counts) {
      return contrastive(loss, at::cat(x), at::cat(t), params, &counts);
    };
    EXPECT_NEAR(filled({images, copies}, {captions, nothing}, behind), expected, 1e-12);
    EXPECT_NEAR(filled({copies, images}, {nothing, captions}, before), expected, 1e-12);
    for (const exec::Counts* counts : {&behind, &before}) {
      EXPECT_EQ(counts->all()[0].sum, alone.all()[0].sum);
      EXPECT_EQ(counts->all()[0].of, 5);
    }
  }
}

TEST(TextTower, GivesNothingForASampleWithoutAPlace) {
  TextFeatures head(1e-5, std::make_shared<Across>(config::Model{}));
  head.bind({at::ones({4}, at::kDouble), at::zeros({4}, at::kDouble), normal({3, 4}, 1)});
  const at::Tensor features = head.forward(
      {normal({2, 6, 4}, 2), torch::tensor(std::vector<std::int64_t>{5, -1}, at::kLong)}, {})[0];
  EXPECT_GT(features[0].abs().min().item<double>(), 0);
  EXPECT_EQ(features[1].abs().max().item<double>(), 0);
}

// What lies behind a caption's end is not read.
TEST(TextTower, ReadsACaptionUpToItsEnd) {
  const config::Job job = job_of("clip", {"model.layers=2"});
  BoundModel model(build(job), at::kDouble);
  leave_the_start(model);
  Tensors inputs = inputs_of(job);
  const double loss = loss_of(model, inputs).item<double>();
  inputs[1] = inputs[1].clone();
  inputs[1][1].narrow(0, 8, 47).fill_(200);
  inputs[1][2].narrow(0, 1, 54).fill_(3);
  EXPECT_NEAR(loss_of(model, inputs).item<double>(), loss, 1e-13);
  inputs[1][1][7].add_(1).remainder_(256);
  EXPECT_GT(std::abs(loss_of(model, inputs).item<double>() - loss), 1e-6);
}

}  // namespace
}  // namespace trireme::blocks::towers_test
