// The plan's memory account against the bytes that units really hold.
#include "trireme/plan/memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "tests/harness/layouts.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/session.h"

namespace trireme::exec {
namespace {

constexpr std::int64_t kWidth = 96;
constexpr int kBlocks = 4;

class Linear : public Block {
 public:
  void bind(std::vector<at::Tensor> params) override { params_ = std::move(params); }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {at::linear(inputs[0], params_[0], params_[1])};
  }

 private:
  std::vector<at::Tensor> params_;
};

class SumOfSquares : public Block {
 public:
  void bind(std::vector<at::Tensor>) override {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {inputs[0].to(at::kFloat).square().sum()};
  }
};

class TwoStates : public Updater {
 public:
  const std::vector<std::string>& state_names() const override { return names_; }
  void update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor>,
              std::span<const UpdateSegment>, const UpdateArgs& args) override {
    param.sub_(grad, args.lr);
  }

 private:
  std::vector<std::string> names_ = {"a", "b"};
};

Model linear_chain() {
  Model model;
  plan::Program& program = model.spec.program;
  program.name = "linear_chain";
  program.values = {{.name = "x", .differentiable = false}};
  for (int i = 0; i < kBlocks; ++i) {
    const std::string name = fmt::format("block.{}", i);
    arch::UnitSpec unit{.name = name,
                        .params = {{.name = name + ".weight",
                                    .shape = {kWidth, kWidth},
                                    .init = {arch::Init::Kind::kNormal, 0.02}},
                                   {.name = name + ".bias", .shape = {kWidth}, .decay = false}}};
    program.units.push_back({.name = name, .numel = unit.numel()});
    program.values.push_back({.name = name});
    program.nodes.push_back({.name = name, .reads = {i}, .writes = {i + 1}, .units = {i}});
    model.spec.units.push_back(unit);
    model.spec.node_params.push_back({{i, 0}, {i, 1}});
    model.blocks.push_back(std::make_unique<Linear>());
  }
  program.values.push_back({.name = "loss"});
  program.nodes.push_back(
      {.name = "loss", .reads = {kBlocks}, .writes = {kBlocks + 1}, .loss = true});
  model.spec.node_params.push_back({});
  model.blocks.push_back(std::make_unique<SumOfSquares>());
  return model;
}

struct Case {
  int replicate, shard, zero, micro_batches;
  DType compute;
  bool canonical;
};

std::int64_t without_activations(const plan::MemoryPoint& point) {
  std::int64_t sum = 0;
  for (int kind = 0; kind < plan::kMemoryKinds; ++kind)
    if (kind != static_cast<int>(plan::MemoryKind::kActivations))
      sum += point[static_cast<std::size_t>(kind)];
  return sum;
}

class UnitMemory : public testing::TestWithParam<Case> {};

TEST_P(UnitMemory, IsWhatThePlanPredicted) {
  const Case param = GetParam();
  const mesh::Mesh mesh({.dp_replicate = param.replicate, .dp_shard = param.shard});
  const plan::Recipe recipe{.zero = param.zero,
                            .micro_batches = param.micro_batches,
                            .canonical = param.canonical,
                            .compute = param.compute,
                            .master = DType::kF32,
                            .grads = DType::kF32};
  comm::run_local_ranks(mesh.world(), 60, [&](comm::World& world) {
    TwoStates updater;
    Session session(linear_chain(), {.mesh = mesh, .recipe = recipe}, world, updater);
    const plan::MemoryAccount account = plan::memory_account(session.plan(), world.rank());
    EXPECT_EQ(session.units().memory().live, without_activations(account.persistent));
    session.step({.load = [&](int) {
      return std::vector<at::Tensor>{
          at::empty({2, kWidth}, at::TensorOptions().dtype(comm::scalar_type(param.compute)))
              .fill_(0.5)};
    }});
    std::int64_t peak = 0;
    for (const plan::MemoryPoint& point : account.at_line)
      peak = std::max(peak, without_activations(point));
    EXPECT_EQ(session.units().memory().peak, peak);
    EXPECT_EQ(session.units().memory().live, without_activations(account.persistent));

    // The field's formulas (anchors): bytes a parameter for n shards, fp32 gradients.
    const double n = param.shard;
    const bool half = param.compute == DType::kBF16;
    const double compute = half ? 2 : 4;
    const double rest = half ? 12 : 8;  // optimizer states, and master weights beside bf16
    const double formula[] = {compute + 4 + rest, compute + 4 + rest / n, compute + (4 + rest) / n,
                              (compute + 4 + rest) / n};
    const double parameters = kBlocks * (kWidth * kWidth + kWidth);
    EXPECT_NEAR(static_cast<double>(account.model_states), formula[param.zero] * parameters,
                0.02 * formula[param.zero] * parameters);
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int zero : {0, 1, 2, 3})
    for (DType compute : {DType::kF32, DType::kBF16})
      for (int micro_batches : {1, 3, 4})
        for (bool canonical : {true, false})
          for (const auto& [replicate, shard] : {std::pair{1, 1}, {1, 2}, {1, 4}, {2, 2}})
            all.push_back({replicate, shard, zero, micro_batches, compute, canonical});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, UnitMemory, testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("zero{}_r{}_s{}_mb{}_{}_{}", c.zero, c.replicate, c.shard, c.micro_batches,
                     name(c.compute), c.canonical ? "canonical" : "fast");
});

}  // namespace
}  // namespace trireme::exec
