// CLIP's scale parameter stays within [0, ln 100] wherever and however it is kept.
#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tests/harness/scratch.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/exec/session.h"
#include "trireme/families/clip/blocks.h"
#include "trireme/model/families/describe.h"
#include "trireme/optim/adamw.h"

namespace trireme::blocks::clip_scale_test {
namespace {

constexpr int kSteps = 30;
constexpr std::int64_t kSamples = 16;
constexpr double kRate = 0.3;

config::Job clip_job(const char* loss = "contrastive.loss=clip") {
  config::Job job;
  for (const char* set :
       {"model.family=clip", "data.source=scenes", "model.seq_len=55", "run.global_batch=1", loss})
    config::apply_set(job, set);
  return config::resolve(job, 1, config::synthetic_source(job.data.source)->facts);
}

constexpr double kOther = 7;

// CLIP's loss of features that are given. Behind the scale its unit has another number that nothing reads.
exec::Model loss_alone() {
  const model::ModelSpec whole = model::describe(clip_job());
  exec::Model model;
  model.spec.units = {whole.units.back()};
  model.spec.units[0].params.push_back(
      {.name = "other",
       .shape = {1},
       .init = {.kind = model::Init::Kind::kConstant, .value = kOther},
       .decay = 0});
  model.spec.program = {
      .name = "clip_loss",
      .values = {{.name = "images", .differentiable = false},
                 {.name = "captions", .differentiable = false},
                 {.name = "loss"}},
      .units = {{.name = "loss", .numel = 2}},
      .nodes = {{.name = "loss", .reads = {0, 1}, .writes = {2}, .units = {0}, .loss = true}}};
  model.spec.node_params = {{{0, 0}}};
  model.spec.metrics = whole.metrics;
  model.blocks.push_back(std::make_unique<ContrastiveLoss>(
      config::ContrastiveLoss::kClip, std::make_shared<Across>(config::Model{})));
  return model;
}

struct Kept {
  std::string name;
  plan::Recipe recipe;
  int ranks = 1;
  bool stochastic = false;
};

plan::Recipe recipe(DType compute, DType master, int zero = 0) {
  return {.zero = zero, .compute = compute, .master = master, .grads = master};
}

std::vector<Kept> ways_to_keep() {
  using enum DType;
  std::vector<Kept> all = {{"fp64", recipe(kF64, kF64)},
                           {"fp32", recipe(kF32, kF32)},
                           {"bf16 with masters", recipe(kBF16, kF32)},
                           {"bf16 masters", recipe(kBF16, kBF16), 1, true},
                           {"8-bit states", recipe(kBF16, kF32)},
                           {"offload", recipe(kBF16, kF32)},
                           {"ZeRO-1", recipe(kF64, kF64, 1), 2},
                           {"ZeRO-3", recipe(kBF16, kF32, 3), 2}};
  all[4].recipe.int8_states = true;
  all[4].recipe.optimizer_states = 4;
  all[5].recipe.offload.optimizer = plan::Tier::kHost;
  return all;
}

// The scale parameter after each step.
std::vector<double> trained(const Kept& kept, const std::vector<std::vector<at::Tensor>>& batches) {
  std::vector<double> scales;
  std::mutex one;
  comm::run_local_ranks(kept.ranks, 60, [&](comm::World& world) {
    optim::AdamW optimizer({.stochastic = kept.stochastic, .int8_states = kept.recipe.int8_states});
    exec::Session session(loss_alone(),
                          {.mesh = mesh::Mesh({.dp_shard = kept.ranks}),
                           .recipe = kept.recipe,
                           .scratch = harness::open_scratch},
                          world, optimizer);
    for (int step = 0; step < kSteps; ++step) {
      session.step({.step = step,
                    .loss_scale = 1.0 / kSamples,
                    .update = {.lr = kRate, .step = step + 1, .noise = 1},
                    .load = [&](int) { return batches[step]; }});
      for (const exec::StateSlice& slice : session.units().owned_slices()) {
        if (slice.kind != "param") continue;
        const at::Tensor values = session.units().read(slice).to(at::kDouble);
        const std::lock_guard lock(one);
        for (std::int64_t i = 0; i < slice.count; ++i) {
          const double value = values[i].item<double>();
          if (slice.offset + i == 0)
            scales.push_back(value);
          else
            EXPECT_EQ(value, kOther);  // bounds are those of the scale alone
        }
      }
    }
  });
  EXPECT_EQ(scales.size(), static_cast<std::size_t>(kSteps));
  return scales;
}

TEST(ClipScale, OfSiglipHasNoBounds) {
  for (const model::ParamSpec& param :
       model::describe(clip_job("contrastive.loss=siglip")).units.back().params)
    EXPECT_EQ(param.bounds, model::Bounds{}) << param.name;
}

TEST(ClipScale, NeverPassesAHundredOnSeparableFeatures) {
  for (const Kept& kept : ways_to_keep()) {
    const at::ScalarType type = comm::scalar_type(kept.recipe.compute);
    const at::Tensor features =
        at::eye(kSamples, at::kDouble).add(0.5).to(type);  // cosines of 5/6 to all others
    const std::vector<double> scales = trained(kept, {kSteps, {features, features}});
    const double bound =
        at::full({}, std::log(100.0), comm::scalar_type(kept.recipe.master)).item<double>();
    EXPECT_EQ(*std::ranges::max_element(scales), bound) << kept.name;
    EXPECT_EQ(scales.back(), bound) << kept.name;
    EXPECT_GT(scales[0], -std::log(0.07)) << kept.name;
  }
}

TEST(ClipScale, NeverFallsBelowOneOnNoise) {
  for (const Kept& kept : ways_to_keep()) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
    const auto noise = [&] {
      return at::randn({kSamples, 8}, generator, at::kDouble)
          .to(comm::scalar_type(kept.recipe.compute));
    };
    std::vector<std::vector<at::Tensor>> batches;
    for (int step = 0; step < kSteps; ++step) batches.push_back({noise(), noise()});
    const std::vector<double> scales = trained(kept, batches);
    EXPECT_EQ(*std::ranges::min_element(scales), 0) << kept.name;
  }
}

}  // namespace
}  // namespace trireme::blocks::clip_scale_test
