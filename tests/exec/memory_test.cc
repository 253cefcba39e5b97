// The plan's memory account against the bytes that units really hold.
#include "trireme/plan/memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "tests/harness/count_allocations.h"
#include "tests/harness/layouts.h"
#include "tests/harness/scratch.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/session.h"
#include "trireme/exec/typed_block.h"

namespace trireme::exec::memory_test {
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

class TwoStates : public Optimizer {
 public:
  explicit TwoStates(bool int8) {
    for (const char* name : {"a", "b"}) {
      states_.push_back({.name = name});
      if (!int8) continue;
      states_.back().type = DType::kU8;
      states_.push_back(
          {.name = std::string(name) + "_scale", .type = DType::kF32, .per_block = true});
    }
  }
  const std::vector<StateSpec>& states() const override { return states_; }
  void update(at::Tensor param, const at::Tensor& grad, std::span<at::Tensor>,
              std::span<const UpdateSegment>, const UpdateArgs& args) override {
    param.sub_(grad, args.lr);
  }

 private:
  std::vector<StateSpec> states_;
};

// Of which the block `typed` computes in fp32, whatever the others do; -1: none. With `chunks` the second half is a chunk of
// its own, whose last block has the first one's unit.
Model linear_chain(at::ScalarType compute, int typed, bool chunks, int blocks = kBlocks) {
  Model model;
  plan::Program& program = model.spec.program;
  program.name = "linear_chain";
  program.values = {{.name = "x", .differentiable = false}};
  for (int i = 0; i < blocks; ++i) {
    const std::string name = fmt::format("block.{}", i);
    const int used = chunks && i == blocks - 1 ? 0 : i;
    model::UnitSpec unit{.name = name,
                         .params = {{.name = name + ".weight",
                                     .shape = {kWidth, kWidth},
                                     .init = {model::Init::Kind::kNormal, 0.02}},
                                    {.name = name + ".bias", .shape = {kWidth}, .decay = 0}}};
    if (used == i) {
      program.units.push_back({.name = name, .numel = unit.numel()});
      model.spec.units.push_back(unit);
    }
    if (i == typed) program.units.back().type = DType::kF32;
    program.values.push_back({.name = name});
    program.nodes.push_back({.name = name,
                             .reads = {i},
                             .writes = {i + 1},
                             .units = {used},
                             .chunk = chunks && i >= blocks / 2});
    model.spec.node_params.push_back({{used, 0}, {used, 1}});
    model.blocks.push_back(std::make_unique<Linear>());
    if (i == typed)
      model.blocks.back() =
          std::make_unique<TypedBlock>(std::move(model.blocks.back()), at::kFloat, compute,
                                       std::vector<bool>{false}, std::vector<bool>{false});
  }
  program.values.push_back({.name = "loss"});
  program.nodes.push_back(
      {.name = "loss", .reads = {blocks}, .writes = {blocks + 1}, .loss = true, .chunk = chunks});
  model.spec.node_params.push_back({});
  model.blocks.push_back(std::make_unique<SumOfSquares>());
  return model;
}

// What is narrower, or wider, than usual.
enum class Variant { kNone, kGrads, kReduce, kMaster, kStates, kUnit, kChunks };

struct Case {
  int replicate, shard, zero, micro_batches;
  DType compute;
  bool canonical;
  Variant variant = Variant::kNone;
  plan::Offload offload{};
  std::string away{};
  int group = 1;
};

std::int64_t without_activations(const plan::MemoryPoint& point) {
  std::int64_t sum = 0;
  for (int kind = 0; kind < plan::kMemoryKinds; ++kind)
    if (kind != static_cast<int>(plan::MemoryKind::kActivations) &&
        kind != static_cast<int>(plan::MemoryKind::kHost))
      sum += point[kind];
  return sum;
}

// Values are drawn a piece at a time, however large the parameter.
TEST(InitialValues, TakeLittleBesideTheParameters) {
  const harness::CountAllocations count;
  constexpr std::int64_t kNumel = std::int64_t{8} << 20;
  Model model;
  model.spec.program = {
      .name = "large",
      .values = {{.name = "x", .differentiable = false}, {.name = "loss"}},
      .units = {{.name = "unit", .numel = kNumel}},
      .nodes = {{.name = "sum", .reads = {0}, .writes = {1}, .units = {0}, .loss = true}}};
  model.spec.units = {
      {.name = "unit",
       .params = {
           {.name = "weight", .shape = {kNumel}, .init = {model::Init::Kind::kNormal, 0.02}}}}};
  model.spec.node_params = {{{0, 0}}};
  model.blocks.push_back(std::make_unique<SumOfSquares>());
  comm::run_local_ranks(1, 60, [&](comm::World& world) {
    TwoStates optimizer(false);
    std::optional<Session> session;
    const std::int64_t most = count.peak_of([&] {
      session.emplace(std::move(model),
                      SessionSetup{.recipe = {.micro_batches = 1, .optimizer_states = 2}}, world,
                      optimizer);
    });
    const std::int64_t params = kNumel * static_cast<std::int64_t>(sizeof(float));
    EXPECT_LE(most - session->units().memory().live, params / 2);
  });
}

class UnitMemory : public testing::TestWithParam<Case> {};

TEST_P(UnitMemory, IsWhatThePlanPredicted) {
  const Case param = GetParam();
  const mesh::Mesh mesh({.dp_replicate = param.replicate, .dp_shard = param.shard});
  const auto narrow = [&](Variant variant) {
    return param.variant == variant ? DType::kBF16 : DType::kF32;
  };
  const plan::Recipe recipe{
      .zero = param.zero,
      .micro_batches = param.micro_batches,
      .canonical = param.canonical,
      .group = param.group,
      .schedule = param.variant == Variant::kChunks ? schedules::Schedule::kInterleaved
                                                    : schedules::Schedule::k1F1B,
      .compute = param.compute,
      .master = narrow(Variant::kMaster),
      .grads = narrow(Variant::kGrads),
      .reduce = param.variant == Variant::kReduce ? std::optional(DType::kBF16) : std::nullopt,
      .int8_states = param.variant == Variant::kStates,
      .offload = param.offload};
  comm::run_local_ranks(mesh.world(), 60, [&](comm::World& world) {
    TwoStates optimizer(recipe.int8_states);
    const at::ScalarType compute = comm::scalar_type(param.compute);
    Session session(linear_chain(compute, param.variant == Variant::kUnit ? 1 : -1,
                                 param.variant == Variant::kChunks),
                    {.mesh = mesh, .recipe = recipe, .scratch = harness::open_scratch}, world,
                    optimizer);
    const plan::MemoryAccount account = plan::memory_account(session.plan(), world.rank());
    EXPECT_EQ(session.units().memory().live, without_activations(account.persistent));
    EXPECT_EQ(session.units().memory().host,
              account.persistent[static_cast<std::size_t>(plan::MemoryKind::kHost)]);
    session.step({.load = [&](int) {
      return std::vector<at::Tensor>{
          at::empty({2, kWidth}, at::TensorOptions().dtype(compute)).fill_(0.5)};
    }});
    std::int64_t peak = 0;
    for (const plan::MemoryPoint& point : account.at_line)
      peak = std::max(peak, without_activations(point));
    EXPECT_EQ(session.units().memory().peak, peak);
    EXPECT_EQ(session.units().memory().live, without_activations(account.persistent));

    if (param.variant != Variant::kNone) return;
    // The field's formulas (anchors): bytes a parameter for n shards, fp32 gradients.
    const double n = param.shard;
    const bool half = param.compute == DType::kBF16;
    const double params = half ? 2 : 4;
    // Optimizer states, and of master weights beside bf16 what it is not half of; whole where one of them leaves.
    const bool whole =
        param.offload.optimizer != plan::Tier::kNone || param.offload.params != plan::Tier::kNone;
    const double rest = !half ? 8 : whole ? 12 : 10;
    const double formula[] = {params + 4 + rest, params + 4 + rest / n, params + (4 + rest) / n,
                              (params + 4 + rest) / n};
    const double parameters = kBlocks * (kWidth * kWidth + kWidth);
    EXPECT_NEAR(static_cast<double>(account.model_states), formula[param.zero] * parameters,
                0.02 * formula[param.zero] * parameters);
  });
}

// Added in a row, all micro-batches of a rank have one sum: the peak is that of one micro-batch, but for the gradient of one
// unit.
TEST(GroupedSums, PeakLikeOneMicroBatch) {
  const auto peak = [](int zero, int micro_batches, int group) {
    std::int64_t most = 0;
    comm::run_local_ranks(2, 60, [&](comm::World& world) {
      TwoStates optimizer(false);
      Session session(linear_chain(at::kFloat, -1, false, /*blocks=*/24),
                      {.mesh = mesh::Mesh({.dp_shard = 2}),
                       .recipe = {.zero = zero, .micro_batches = micro_batches, .group = group},
                       .scratch = harness::open_scratch},
                      world, optimizer);
      session.step({.load = [](int) {
        return std::vector<at::Tensor>{at::full({2, kWidth}, 0.5)};
      }});
      if (world.rank() == 0) most = session.units().memory().peak;
    });
    return static_cast<double>(most);
  };
  for (int zero : {0, 1}) {
    EXPECT_LE(peak(zero, 16, 16), 1.05 * peak(zero, 1, 1)) << zero;
    EXPECT_GE(peak(zero, 16, 1), 1.5 * peak(zero, 1, 1)) << zero;
  }
}

std::vector<Case> group_cases() {
  std::vector<Case> all;
  for (int zero : {0, 1, 2, 3})
    for (const auto& [micro_batches, group] : {std::pair{4, 2}, {4, 4}, {6, 3}})
      for (const auto& [replicate, shard] : {std::pair{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 2}})
        for (Variant variant : {Variant::kNone, Variant::kReduce, Variant::kChunks})
          for (bool away : {false, true})
            all.push_back({.replicate = replicate,
                           .shard = shard,
                           .zero = zero,
                           .micro_batches = micro_batches,
                           .compute = variant == Variant::kReduce ? DType::kBF16 : DType::kF32,
                           .canonical = true,
                           .variant = variant,
                           .offload = {.grads = away ? plan::Tier::kHost : plan::Tier::kNone},
                           .away = away ? "away" : "here",
                           .group = group});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Groups, UnitMemory, testing::ValuesIn(group_cases()),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return fmt::format("zero{}_r{}_s{}_mb{}_group{}_{}_{}", c.zero,
                                              c.replicate, c.shard, c.micro_batches, c.group,
                                              static_cast<int>(c.variant), c.away);
                         });

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int zero : {0, 1, 2, 3})
    for (DType compute : {DType::kF32, DType::kBF16})
      for (int micro_batches : {1, 3, 4})
        for (bool canonical : {true, false})
          for (const auto& [replicate, shard] : {std::pair{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 2}})
            all.push_back({replicate, shard, zero, micro_batches, compute, canonical});
  for (Variant variant :
       {Variant::kGrads, Variant::kReduce, Variant::kMaster, Variant::kStates, Variant::kUnit})
    for (int zero : {0, 1, 2, 3})
      for (const auto& [replicate, shard] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
        for (bool canonical : {true, false})
          all.push_back({replicate, shard, zero, 3, DType::kBF16, canonical, variant});
  for (int zero : {0, 1, 2, 3})
    for (const auto& [replicate, shard] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
      for (int micro_batches : {1, 3, 4})
        for (bool canonical : {true, false})
          all.push_back(
              {replicate, shard, zero, micro_batches, DType::kF32, canonical, Variant::kChunks});
  return all;
}

constexpr const char* kVariants[] = {"",        "_grads", "_reduce", "_master",
                                     "_states", "_unit",  "_chunks"};

INSTANTIATE_TEST_SUITE_P(Layouts, UnitMemory, testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("zero{}_r{}_s{}_mb{}_{}_{}{}", c.zero, c.replicate, c.shard, c.micro_batches,
                     name(c.compute), c.canonical ? "canonical" : "fast",
                     kVariants[static_cast<std::size_t>(c.variant)]);
});

std::vector<Case> offload_cases() {
  using plan::Tier;
  const std::vector<std::pair<std::string, plan::Offload>> offloads = {
      {"states", {.optimizer = Tier::kNvme}},
      {"half", {.optimizer = Tier::kHost, .ratio = 0.5, .prefetch = 0}},
      {"params", {.params = Tier::kHost}},
      {"grads", {.grads = Tier::kNvme, .prefetch = 2}},
      {"all", {.optimizer = Tier::kNvme, .params = Tier::kHost, .grads = Tier::kHost}},
      {"far",
       {.optimizer = Tier::kHost, .params = Tier::kNvme, .grads = Tier::kNvme, .prefetch = 2}}};
  std::vector<Case> all;
  for (int zero : {0, 1, 2, 3})
    for (int micro_batches : {1, 3, 4})
      for (int shard : {1, 2})
        all.push_back({.replicate = 1,
                       .shard = shard,
                       .zero = zero,
                       .micro_batches = micro_batches,
                       .compute = DType::kF32,
                       .canonical = true,
                       .variant = Variant::kChunks,
                       .offload = {.grads = Tier::kHost},
                       .away = "chunks"});
  for (const auto& [name, offload] : offloads)
    for (int zero : {0, 1, 2, 3})
      for (DType compute : {DType::kF32, DType::kBF16})
        for (int micro_batches : {1, 3, 4})
          for (bool canonical : {true, false})
            for (int shard : {1, 2, 3})
              all.push_back({.replicate = 1,
                             .shard = shard,
                             .zero = zero,
                             .micro_batches = micro_batches,
                             .compute = compute,
                             .canonical = canonical,
                             .offload = offload,
                             .away = name});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Offloads, UnitMemory, testing::ValuesIn(offload_cases()),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return fmt::format("{}_zero{}_s{}_mb{}_{}_{}", c.away, c.zero, c.shard,
                                              c.micro_batches, name(c.compute),
                                              c.canonical ? "canonical" : "fast");
                         });

}  // namespace
}  // namespace trireme::exec::memory_test
