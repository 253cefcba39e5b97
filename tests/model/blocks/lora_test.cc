// Models with adapters against what defines them: the same model with merged weights, and finite differences.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "tests/harness/bound_model.h"
#include "trireme/base/hash.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::lora_test {
namespace {

using config::Family;
using harness::BoundModel;

constexpr Family kFamilies[] = {Family::kGpt, Family::kLlama, Family::kNeox};

config::Job job_of(Family family, const std::vector<std::string>& sets) {
  config::Job job;
  job.model = {.family = family,
               .layers = 2,
               .hidden = 24,
               .heads = 4,
               .kv_heads = family == Family::kLlama ? 2 : 4,
               .ffn = 40,
               .vocab = 53,
               .seq_len = 30};
  if (family == Family::kNeox) job.neox.rotary_fraction = 0.7;  // four of six channels
  job.precision.compute = DType::kF64;
  job.run.micro_batch = job.run.global_batch = 2;
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

at::Tensor tokens_of(const config::Job& job, std::uint64_t seed) {
  return at::randint(job.model.vocab, {job.run.micro_batch, job.model.seq_len},
                     at::make_generator<at::CPUGeneratorImpl>(seed),
                     at::TensorOptions().dtype(at::kLong));
}

std::map<std::string, at::Tensor> by_name(const BoundModel& model) {
  return {model.params().begin(), model.params().end()};
}

// Away from the start, where B is zero.
void move_adapters(BoundModel& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, param] : model.params())
    if (name.find("lora_B") != std::string::npos)
      param.normal_(0, 0.3, at::make_generator<at::CPUGeneratorImpl>(hash64(name)));
}

struct Pair {
  std::string weight;
  at::Tensor down;
  at::Tensor up;
};

std::vector<Pair> adapters_of(const BoundModel& model) {
  const std::map<std::string, at::Tensor> params = by_name(model);
  std::vector<Pair> pairs;
  for (const auto& [name, down] : params) {
    const std::size_t at = name.find(".lora_A.");
    if (at == std::string::npos) continue;
    const std::string layer = name.substr(0, at);
    pairs.push_back({layer + ".weight", down, params.at(layer + ".lora_B.weight")});
  }
  return pairs;
}

// The loss of merged weights W + s B A is the adapted model's, and gradients follow by the chain rule from theirs.
TEST(Lora, IsTheModelWithMergedWeights) {
  for (const Family family : kFamilies)
    for (const auto& [targets, layers] : {std::pair("all", family == Family::kGpt     ? 4
                                                           : family == Family::kLlama ? 7
                                                                                      : 6),
                                          std::pair("attention", family == Family::kGpt ? 2 : 4),
                                          std::pair("mlp", family == Family::kLlama ? 3 : 2)}) {
      const config::Job plain = job_of(family, {});
      const config::Job job = job_of(family, {"lora.rank=3", "lora.alpha=4.5", "lora.also=head",
                                              std::string("lora.targets=") + targets});
      BoundModel model(build(job), at::kDouble), merged(build(plain), at::kDouble);
      const at::Tensor tokens = tokens_of(job, 1), next = tokens_of(job, 2);
      EXPECT_EQ(model.loss(tokens, next).item<double>(), merged.loss(tokens, next).item<double>());
      move_adapters(model);
      const std::vector<Pair> adapters = adapters_of(model);
      EXPECT_EQ(adapters.size(), static_cast<std::size_t>(2 * layers)) << targets;
      const std::map<std::string, at::Tensor> whole = by_name(merged);
      {
        const at::NoGradGuard no_grad;
        for (const Pair& pair : adapters)
          whole.at(pair.weight).add_(at::mm(pair.up, pair.down), 1.5);
      }
      const at::Tensor loss = model.loss(tokens, next), expected = merged.loss(tokens, next);
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-10);
      EXPECT_GT(std::abs(loss.item<double>() -
                         BoundModel(build(plain), at::kDouble).loss(tokens, next).item<double>()),
                1e-2);
      loss.backward();
      expected.backward();
      for (const Pair& pair : adapters) {
        const at::Tensor dweight = whole.at(pair.weight).grad();
        EXPECT_TRUE(at::allclose(pair.up.grad(), 1.5 * at::mm(dweight, pair.down.t()), 1e-9, 1e-11))
            << pair.weight;
        EXPECT_TRUE(at::allclose(pair.down.grad(), 1.5 * at::mm(pair.up.t(), dweight), 1e-9, 1e-11))
            << pair.weight;
      }
      int frozen = 0;
      for (const auto& [name, param] : model.params()) {
        if (param.requires_grad()) continue;
        ++frozen;
        EXPECT_FALSE(param.grad().defined()) << name;
      }
      EXPECT_GT(frozen, 10);
      const char* const norm = family == Family::kGpt     ? "transformer.ln_f.weight"
                               : family == Family::kLlama ? "model.norm.weight"
                                                          : "gpt_neox.final_layer_norm.weight";
      EXPECT_TRUE(at::allclose(by_name(model).at(norm).grad(), whole.at(norm).grad()));
    }
}

// rsLoRA: the scale is alpha / sqrt(rank).
TEST(Lora, ScaleIsOfTheRankOrOfItsRoot) {
  for (const auto& [scaling, scale] :
       {std::pair("rank", 6.0 / 4), std::pair("root_rank", 6.0 / 2)}) {
    const config::Job job = job_of(
        Family::kLlama, {"lora.rank=4", "lora.alpha=6", std::string("lora.scaling=") + scaling});
    BoundModel model(build(job), at::kDouble),
        merged(build(job_of(Family::kLlama, {})), at::kDouble);
    move_adapters(model);
    const std::map<std::string, at::Tensor> whole = by_name(merged);
    const at::NoGradGuard no_grad;
    for (const Pair& pair : adapters_of(model))
      whole.at(pair.weight).add_(at::mm(pair.up, pair.down), scale);
    const at::Tensor tokens = tokens_of(job, 1);
    EXPECT_NEAR(model.loss(tokens, tokens).item<double>(),
                merged.loss(tokens, tokens).item<double>(), 1e-10);
  }
}

TEST(Lora, DropoutIsOfWhatAdaptersRead) {
  for (const Family family : kFamilies) {
    const config::Job job = job_of(family, {"lora.rank=3", "lora.dropout=0.3"});
    BoundModel model(build(job), at::kDouble),
        plain(build(job_of(family, {"lora.rank=3"})), at::kDouble);
    move_adapters(model);
    move_adapters(plain);
    const at::Tensor tokens = tokens_of(job, 1);
    const auto loss = [&](const exec::BlockContext& context) {
      return model.loss(tokens, tokens, context).item<double>();
    };
    const exec::BlockContext here{.seed = 3, .step = 4, .micro_batch = 5};
    EXPECT_EQ(loss(here), loss(here));
    EXPECT_NE(loss(here), loss({.seed = 3, .step = 4, .micro_batch = 6}));
    EXPECT_EQ(loss({.training = false}), plain.loss(tokens, tokens).item<double>());
    model.loss(tokens, tokens, here).backward();
    const at::NoGradGuard no_grad;
    for (const Pair& pair : adapters_of(model))
      for (const at::Tensor& param : {pair.down, pair.up}) {
        const at::Tensor direction =
            at::empty_like(param).normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(1));
        const auto moved = [&](double step) {
          param.add_(direction, step);
          const double value = loss(here);
          param.sub_(direction, step);
          return value;
        };
        constexpr double kStep = 3e-6;
        const double slope =
            (8 * (moved(kStep) - moved(-kStep)) - (moved(2 * kStep) - moved(-2 * kStep))) /
            (12 * kStep);
        EXPECT_NEAR((param.grad() * direction).sum().item<double>(), slope,
                    1e-6 * std::max(1.0, std::abs(slope)))
            << pair.weight;
      }
  }
}

// With B = 0 the first step moves B alone.
TEST(Lora, AtTheStartOnlyBHasAGradient) {
  for (const Family family : kFamilies) {
    const config::Job job = job_of(family, {"lora.rank=3"});
    BoundModel model(build(job), at::kDouble);
    model.loss(tokens_of(job, 1), tokens_of(job, 2)).backward();
    for (const Pair& pair : adapters_of(model)) {
      EXPECT_EQ(pair.up.detach().abs().max().item<double>(), 0) << pair.weight;
      EXPECT_EQ(pair.down.grad().abs().max().item<double>(), 0) << pair.weight;
      EXPECT_GT(pair.up.grad().abs().max().item<double>(), 0) << pair.weight;
    }
  }
}

TEST(Lora, BeginsAsTheModelAndDrawsAWithTheVarianceOfOneFeature) {
  const model::ModelSpec spec = build(job_of(Family::kLlama, {"lora.rank=4"})).spec;
  EXPECT_EQ(spec.units[2].name, "block.0.lora");
  EXPECT_TRUE(spec.program.units[2].trainable);
  EXPECT_FALSE(spec.program.units[1].trainable);
  const model::ParamSpec& down = spec.units[2].params[12];  // of down_proj
  EXPECT_EQ(down.name, "model.layers.0.mlp.down_proj.lora_A.weight");
  EXPECT_EQ(down.shape, (std::vector<std::int64_t>{4, 40}));
  EXPECT_DOUBLE_EQ(down.init.std, 1 / std::sqrt(40.0));
  EXPECT_EQ(spec.units[2].params[13].init.kind, model::Init::Kind::kZeros);
}

}  // namespace
}  // namespace trireme::blocks::lora_test
