// CLIP and SigLIP against an independent forward in NumPy: loss and gradients in fp64, of weights and inputs by a formula.
#include "tests/model/blocks/clip_fixture.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/harness/bound_model.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::clip_fixture_test {
namespace {

// Numbers in [-0.5, 0.5) by a name, as in the script.
at::Tensor mixed(std::string_view name, at::IntArrayRef shape) {
  std::uint32_t begin = 0;
  for (const char byte : name) begin = begin * 31 + static_cast<unsigned char>(byte);
  const at::Tensor all = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    std::uint32_t x = begin + static_cast<std::uint32_t>(i);
    x = (x ^ (x >> 16)) * 0x85EBCA6BU;
    x = (x ^ (x >> 13)) * 0xC2B2AE35U;
    x ^= x >> 16;
    all.data_ptr<double>()[i] = x / 4294967296.0 - 0.5;
  }
  return all;
}

at::Tensor parameter(const std::string& name, at::IntArrayRef shape) {
  const at::Tensor u = mixed(name, shape);
  if (name == "logit_scale") return u + 2;
  if (name == "logit_bias") return u - 3;
  if (name.find("norm") != name.npos && name.ends_with(".weight")) return 0.4 * u + 1;
  return 0.8 * u;
}

config::Job job_of(const std::vector<std::string>& sets) {
  config::Job job;
  for (const char* set :
       {"model.family=clip",    "data.source=pairs",  "data.path=x",     "precision.compute=fp64",
        "run.micro_batch=3",    "run.global_batch=3", "vision.image=8",  "vision.patch=4",
        "vision.hidden=12",     "vision.heads=2",     "vision.layers=2", "vision.ffn=20",
        "vision.norm_eps=1e-3", "model.vocab=19",     "model.seq_len=7", "model.layers=1",
        "model.hidden=8",       "model.heads=2",      "model.ffn=12",    "model.norm_eps=1e-2"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

void expect_fixture(const config::Job& job, const ContrastiveFixture& fixture) {
  harness::BoundModel model(build(job), at::kDouble);
  {
    const at::NoGradGuard none;
    for (const auto& [name, param] : model.params()) param.copy_(parameter(name, param.sizes()));
  }
  const at::Tensor images = ((mixed("pixels", {3, 3, 1, 8, 8}) * 512).floor() / 256).to(at::kFloat);
  const at::Tensor tokens = ((mixed("tokens", {3, 7}) + 0.5) * 19).floor().to(at::kLong);
  const plan::Program& program = model.model().spec.program;
  std::vector<at::Tensor> values(program.values.size());
  values[0] = images;
  values[1] = tokens;
  values[2] = torch::tensor({6, 3, 0}, at::kLong);
  at::Tensor loss;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    std::vector<at::Tensor> reads;
    for (const plan::ValueId id : program.nodes[n].reads) reads.push_back(values[id]);
    loss = model.block(n).forward(reads, {})[0];
    values[program.nodes[n].writes[0]] = loss;
  }
  EXPECT_NEAR(loss.item<double>(), fixture.loss, 1e-12 * fixture.loss);
  loss.backward();
  std::map<std::string, double> norms;
  for (const auto& [name, param] : model.params()) norms[name] = param.grad().norm().item<double>();
  EXPECT_EQ(norms.size(), fixture.norms.size());
  for (const GradientNorm& one : fixture.norms) {
    ASSERT_TRUE(norms.contains(one.parameter)) << one.parameter;
    EXPECT_NEAR(norms[one.parameter], one.norm, 1e-12 * std::max(1.0, one.norm)) << one.parameter;
  }
}

TEST(ClipFixture, LossAndGradientsAreThoseOfNumpy) {
  expect_fixture(job_of({"vision.pooling=class", "vision.pre_norm=true",
                         "vision.activation=quick_gelu", "contrastive.width=10"}),
                 kClipFixture);
}

TEST(SiglipFixture, LossAndGradientsAreThoseOfNumpy) {
  expect_fixture(job_of({"contrastive.loss=siglip", "vision.pooling=attention",
                         "vision.activation=gelu_tanh", "contrastive.width=12"}),
                 kSiglipFixture);
}

}  // namespace
}  // namespace trireme::blocks::clip_fixture_test
