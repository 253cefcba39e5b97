// Two layers, and runs of them that save and load checkpoints.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/plan/compile/microbatch.h"

namespace trireme::checkpoint::checkpoint_test {

using exec::BlockContext;
using harness::Layout;

constexpr std::int64_t kWidth = 37;  // odd: shards are padded

class Layer : public exec::Block {
 public:
  void bind(std::vector<at::Tensor> params) override { params_ = std::move(params); }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {at::linear(inputs[0], params_[0], params_[1]).tanh()};
  }

 private:
  std::vector<at::Tensor> params_;
};

class Loss : public exec::Block {
 public:
  void bind(std::vector<at::Tensor>) override {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {inputs[0].to(at::kFloat).square().sum()};
  }
};

inline exec::Model layers(std::int64_t width) {
  exec::Model model;
  plan::Program& program = model.spec.program;
  program.name = "layers";
  program.values = {{.name = "x", .differentiable = false}};
  for (int i = 0; i < 2; ++i) {
    const std::string name = fmt::format("layer.{}", i);
    model::UnitSpec unit{.name = name,
                         .params = {{.name = name + ".weight",
                                     .shape = {width, width},
                                     .init = {model::Init::Kind::kNormal, 0.2}},
                                    {.name = name + ".bias", .shape = {width}}}};
    program.units.push_back(
        {.name = name, .numel = unit.numel(), .matrices = model::matrices_of(unit)});
    program.values.push_back({.name = name});
    program.nodes.push_back({.name = name, .reads = {i}, .writes = {i + 1}, .units = {i}});
    model.spec.units.push_back(unit);
    model.spec.node_params.push_back({{i, 0}, {i, 1}});
    model.blocks.push_back(std::make_unique<Layer>());
  }
  program.values.push_back({.name = "loss"});
  program.nodes.push_back({.name = "loss", .reads = {2}, .writes = {3}, .loss = true});
  model.spec.node_params.push_back({});
  model.blocks.push_back(std::make_unique<Loss>());
  return model;
}

inline Layout layout(int replicate, int shard, int zero, DType compute = DType::kF32) {
  return {.degrees = {.dp_replicate = replicate, .dp_shard = shard},
          .recipe = {.zero = zero,
                     .micro_batches = 4 / (replicate * shard),
                     .compute = compute,
                     .optimizer_states = 1}};
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / fmt::format("trireme_ckpt_{}", ::getpid());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // Steps [first, last) under a layout, loading before when first > 0 and saving after; the digest is the
  // losses' and, through them, every parameter's.
  std::vector<double> run(const Layout& layout, std::int64_t first, std::int64_t last) {
    std::vector<double> losses;
    const mesh::Mesh mesh(layout.degrees);
    comm::run_local_ranks(mesh.world(), 60, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      exec::Session session(layers(width_), {.mesh = mesh, .recipe = layout.recipe, .seed = 3},
                            world, optimizer);
      if (first > 0) {
        const auto manifest = load(root_ / fmt::format("step-{}", first), session.units(),
                                   session.model().spec.units);
        EXPECT_EQ(manifest.step, first);
        session.units().refresh();
      }
      for (std::int64_t step = first; step < last; ++step) {
        const exec::StepResult result = session.step(
            {.step = step,
             .loss_scale = 0.1,
             .update = {.lr = 0.05, .step = step + 1},
             .load = [&](int mb) {
               const BlockContext key{
                   .seed = 9,
                   .step = step,
                   .micro_batch = plan::micro_batch_id(mesh, layout.recipe, world.rank(), mb)};
               at::Tensor x = at::empty({2, width_}).normal_(0, 1, key.generator(0));
               return std::vector<at::Tensor>{x.to(comm::scalar_type(layout.recipe.compute))};
             }});
        if (world.rank() == 0) losses.push_back(result.loss);
      }
      save(root_, {.step = last, .consumed_samples = last * 8, .job = "job"}, session.units(),
           session.model().spec.units, world);
    });
    return losses;
  }

  Path root_;
  std::int64_t width_ = kWidth;
};

}  // namespace trireme::checkpoint::checkpoint_test
