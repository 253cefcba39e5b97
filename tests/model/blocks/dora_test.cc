// Models with magnitudes (DoRA, Liu et al. 2024) against the same model with merged weights, and finite differences of that
// one with norms that stay.
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "tests/harness/bound_model.h"
#include "trireme/base/hash.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::dora_test {
namespace {

using config::Family;
using harness::BoundModel;
using Sets = std::vector<std::string>;

constexpr Family kFamilies[] = {Family::kGpt, Family::kLlama, Family::kNeox};
constexpr double kScale = 4.5 / 3;

config::Job job_of(Family family, const Sets& sets) {
  config::Job job;
  job.model = {.family = family,
               .layers = 2,
               .hidden = 24,
               .heads = 4,
               .kv_heads = family == Family::kLlama ? 2 : 4,
               .qkv_bias = family == Family::kLlama,
               .ffn = 40,
               .vocab = 53,
               .seq_len = 30};
  if (family == Family::kNeox) job.neox.rotary_fraction = 0.7;  // four of six channels
  job.precision.compute = DType::kF64;
  job.run.micro_batch = job.run.global_batch = 2;
  job.llama.output_bias = job.llama.feed_forward_bias = family == Family::kLlama;
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

config::Job adapted(Family family, const Sets& more = {}) {
  Sets sets = {"lora.rank=3", "lora.alpha=4.5", "lora.dora=true"};
  sets.insert(sets.end(), more.begin(), more.end());
  return job_of(family, sets);
}

at::Tensor tokens_of(const config::Job& job, std::uint64_t seed) {
  return at::randint(job.model.vocab, {job.run.micro_batch, job.model.seq_len},
                     at::make_generator<at::CPUGeneratorImpl>(seed),
                     at::TensorOptions().dtype(at::kLong));
}

std::map<std::string, at::Tensor> by_name(const BoundModel& model) {
  return {model.params().begin(), model.params().end()};
}

at::Tensor noise_like(const at::Tensor& param, const std::string& name) {
  return at::empty_like(param.detach())
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(hash64(name)));
}

// Away from the start: magnitudes by some tenths, biases by as much, so that these count.
void move(const BoundModel& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, param] : model.params()) {
    if (name.find("lora_B") != name.npos) param.copy_(noise_like(param, name).mul_(0.3));
    if (name.find("magnitude") != name.npos) param.mul_(noise_like(param, name).mul_(0.3).exp_());
    if (name.ends_with(".bias")) param.copy_(noise_like(param, name).mul_(0.2));
  }
}

struct Layer {
  std::string weight;
  at::Tensor down, up, magnitude;
};
std::vector<Layer> layers_of(const BoundModel& model) {
  const std::map<std::string, at::Tensor> params = by_name(model);
  std::vector<Layer> layers;
  for (const auto& [name, down] : params) {
    const std::size_t at = name.find(".lora_A.");
    if (at == name.npos) continue;
    const std::string layer = name.substr(0, at);
    layers.push_back({layer + ".weight", down, params.at(layer + ".lora_B.weight"),
                      params.at(layer + ".lora_magnitude_vector.weight")});
  }
  return layers;
}

at::Tensor direction_of(const Layer& layer, const at::Tensor& weight) {
  return weight.detach() + kScale * at::mm(layer.up.detach(), layer.down.detach());
}
at::Tensor norms_of(const at::Tensor& rows) { return at::linalg_vector_norm(rows, 2, {1}, true); }

// A plain model whose weights are m / |W + s B A| * (W + s B A).
void merge(const BoundModel& model, const BoundModel& into) {
  const std::map<std::string, at::Tensor> from = by_name(model), to = by_name(into);
  const at::NoGradGuard no_grad;
  for (const auto& [name, param] : to) param.copy_(from.at(name));
  for (const Layer& layer : layers_of(model)) {
    const at::Tensor rows = direction_of(layer, from.at(layer.weight));
    to.at(layer.weight).copy_(layer.magnitude.unsqueeze(1) / norms_of(rows) * rows);
  }
}

TEST(Dora, BeginsAsTheModelWithNormsOfItsRows) {
  for (const Family family : kFamilies) {
    const config::Job job = adapted(family);
    BoundModel model(build(job), at::kDouble), plain(build(job_of(family, {})), at::kDouble);
    const std::map<std::string, at::Tensor> params = by_name(plain);
    for (const Layer& layer : layers_of(model)) {
      EXPECT_TRUE(layer.magnitude.requires_grad());
      EXPECT_TRUE(
          at::allclose(layer.magnitude, norms_of(params.at(layer.weight)).squeeze(1), 1e-14))
          << layer.weight;
    }
    const at::Tensor tokens = tokens_of(job, 1), next = tokens_of(job, 2);
    EXPECT_NEAR(model.loss(tokens, next).item<double>(), plain.loss(tokens, next).item<double>(),
                1e-10);
  }
}

TEST(Dora, IsTheModelWithMergedWeights) {
  for (const Family family : kFamilies)
    for (const char* targets : {"all", "attention", "mlp"}) {
      const config::Job job = adapted(family, {std::string("lora.targets=") + targets});
      BoundModel model(build(job), at::kDouble), plain(build(job_of(family, {})), at::kDouble);
      move(model);
      const at::Tensor tokens = tokens_of(job, 1), next = tokens_of(job, 2);
      const double before = plain.loss(tokens, next).item<double>();
      merge(model, plain);
      const double loss = model.loss(tokens, next).item<double>();
      EXPECT_NEAR(loss, plain.loss(tokens, next).item<double>(), 1e-10) << targets;
      EXPECT_GT(std::abs(loss - before), 1e-2);
    }
}

// Norms have no gradient (section 4.3 of the paper): differences are those of a merged model with the norms of the start.
TEST(Dora, GradientsAreThoseOfConstantNorms) {
  for (const Family family : kFamilies) {
    const config::Job job = adapted(family, {"lora.also=block.*"});
    BoundModel model(build(job), at::kDouble), plain(build(job_of(family, {})), at::kDouble);
    move(model);
    merge(model, plain);
    const at::Tensor tokens = tokens_of(job, 1), next = tokens_of(job, 2);
    model.loss(tokens, next).backward();
    const std::map<std::string, at::Tensor> from = by_name(model), to = by_name(plain);
    const at::NoGradGuard no_grad;
    for (const Layer& layer : layers_of(model)) {
      const at::Tensor weight = from.at(layer.weight), merged = to.at(layer.weight);
      const at::Tensor held = merged.clone(), norms = norms_of(direction_of(layer, weight));
      for (const at::Tensor& param : {layer.magnitude, layer.down, layer.up, weight}) {
        const at::Tensor direction = noise_like(param, layer.weight);
        const auto moved = [&](double step) {
          param.add_(direction, step);
          merged.copy_(layer.magnitude.unsqueeze(1) / norms * direction_of(layer, weight));
          param.sub_(direction, step);
          return plain.loss(tokens, next).item<double>();
        };
        constexpr double kStep = 3e-6;
        const double slope =
            (8 * (moved(kStep) - moved(-kStep)) - (moved(2 * kStep) - moved(-2 * kStep))) /
            (12 * kStep);
        EXPECT_NEAR((param.grad() * direction).sum().item<double>(), slope,
                    1e-6 * std::max(1.0, std::abs(slope)))
            << layer.weight << " " << param.sizes();
      }
      merged.copy_(held);
    }
    // Biases are added as they are.
    for (const auto& [name, param] : from) {
      if (!name.ends_with(".bias") || !param.requires_grad()) continue;
      const at::Tensor direction = noise_like(param, name), there = to.at(name);
      const auto moved = [&](double step) {
        there.add_(direction, step);
        const double loss = plain.loss(tokens, next).item<double>();
        there.sub_(direction, step);
        return loss;
      };
      const double slope = (moved(3e-6) - moved(-3e-6)) / 6e-6;
      EXPECT_NEAR((param.grad() * direction).sum().item<double>(), slope,
                  1e-5 * std::max(1.0, std::abs(slope)))
          << name;
    }
  }
}

// In bf16 the scale is applied in fp32: a model of magnitudes is as near to its merged one as their types allow.
TEST(Dora, InNarrowTypesIsCloseToTheMergedModel) {
  const config::Job job = adapted(Family::kLlama, {"precision.compute=bf16"});
  BoundModel narrow(build(job), at::kBFloat16), wide(build(adapted(Family::kLlama)), at::kDouble);
  move(narrow);
  move(wide);
  const at::Tensor tokens = tokens_of(job, 1);
  EXPECT_NEAR(narrow.loss(tokens, tokens).item<double>() / wide.loss(tokens, tokens).item<double>(),
              1, 0.01);
}

}  // namespace
}  // namespace trireme::blocks::dora_test
