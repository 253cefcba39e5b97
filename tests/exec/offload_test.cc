// A model whose states, parameters and gradients wait elsewhere trains as one that has them in memory.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "tests/harness/needs.h"
#include "tests/harness/scratch.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::exec::offload_test {
namespace {

using harness::Layout;
using harness::run_layout;
using harness::Subject;
using harness::Trace;
using plan::Tier;

constexpr std::int64_t kWidth = 12;
constexpr int kLayers = 5;

class Layer : public Block {
 public:
  void bind(std::vector<at::Tensor> params) override { params_ = std::move(params); }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {at::linear(inputs[0], params_[0], params_[1]).tanh()};
  }

 private:
  std::vector<at::Tensor> params_;
};

class Loss : public Block {
 public:
  void bind(std::vector<at::Tensor>) override {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {inputs[0].to(at::kFloat).square().sum()};
  }
};

Model layers() {
  Model model;
  plan::Program& program = model.spec.program;
  program.name = "layers";
  program.values = {{.name = "x", .differentiable = false}};
  for (int i = 0; i < kLayers; ++i) {
    const std::string name = fmt::format("layer.{}", i);
    model::UnitSpec unit{.name = name,
                         .params = {{.name = name + ".weight",
                                     .shape = {kWidth, kWidth},
                                     .init = {model::Init::Kind::kNormal, 0.5}},
                                    {.name = name + ".bias", .shape = {kWidth}}}};
    program.units.push_back({.name = name, .numel = unit.numel()});
    program.values.push_back({.name = name, .bytes = 3 * kWidth * 4});
    program.nodes.push_back({.name = name, .reads = {i}, .writes = {i + 1}, .units = {i}});
    model.spec.units.push_back(unit);
    model.spec.node_params.push_back({{i, 0}, {i, 1}});
    model.blocks.push_back(std::make_unique<Layer>());
  }
  program.values.push_back({.name = "loss"});
  program.nodes.push_back(
      {.name = "loss", .reads = {kLayers}, .writes = {kLayers + 1}, .loss = true});
  model.spec.node_params.push_back({});
  model.blocks.push_back(std::make_unique<Loss>());
  return model;
}

Subject subject(DType type, int micro_batches) {
  return {.model = layers,
          .optimizer = [] { return std::make_unique<harness::MomentumSgd>(); },
          .batch =
              [=](std::int64_t step, std::int64_t micro_batch) {
                const BlockContext key{.seed = 4, .step = step, .micro_batch = micro_batch};
                at::Tensor x = at::empty({3, kWidth}).normal_(0, 1, key.generator(0));
                return std::vector<at::Tensor>{x.to(comm::scalar_type(type))};
              },
          .loss_scale = 1.0 / (3 * micro_batches),
          .clip = 0.5};
}

std::vector<plan::Offload> offloads() {
  return {{.optimizer = Tier::kHost},
          {.optimizer = Tier::kNvme, .ratio = 0.6, .prefetch = 0},
          {.params = Tier::kNvme},
          {.grads = Tier::kNvme},
          {.optimizer = Tier::kNvme, .params = Tier::kHost, .grads = Tier::kNvme, .prefetch = 2}};
}

TEST(Offload, TrainsAsInMemory) {
  for (DType type : {DType::kF32, DType::kBF16})
    for (int global : {4, 6}) {
      const Subject one = subject(type, global);
      const auto recipe = [&](int zero, int ranks) {
        return plan::Recipe{
            .zero = zero, .micro_batches = global / ranks, .compute = type, .optimizer_states = 1};
      };
      for (int zero : {0, 1, 2, 3})
        for (int ranks : {1, 2}) {
          Layout layout{.degrees = {.dp_shard = ranks}, .recipe = recipe(zero, ranks)};
          const Trace reference = run_layout(one, layout, 3);
          for (const plan::Offload& offload : offloads())
            for (int segments : {0, 1}) {
              layout.segments = segments;
              layout.recipe.offload = offload;
              if (segments > 0) layout.recipe.offload.activations = offload.optimizer;
              EXPECT_EQ(run_layout(one, layout, 3), reference) << layout.name();
            }
        }
    }
}

// Host memory of which there is not enough.
class Full : public scratch::Scratch {
 public:
  scratch::Extent reserve(std::int64_t bytes) override { return inner_->reserve(bytes); }
  void commit() override { fail(ErrorKind::kData, "scratch: needs 10 bytes, 5 are free"); }
  scratch::Ticket write(const scratch::Extent&, const void*, std::int64_t) override { return {}; }
  scratch::Ticket read(const scratch::Extent&, void*, std::int64_t) override { return {}; }
  std::string describe() const override { return "full"; }
  scratch::Traffic traffic() const override { return inner_->traffic(); }

 private:
  std::unique_ptr<scratch::Scratch> inner_ = scratch::open_memory();
};

// Trains on two ranks, the second of which opens its space by `open`: both end with its cause.
void expect_end(const OpenScratch& open, const std::string& cause) {
  int ended = 0;
  std::mutex mutex;
  const auto run = [&] {
    comm::run_local_ranks(2, 20, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      try {
        Session session(layers(),
                        {.mesh = mesh::Mesh({.dp_shard = 2}),
                         .recipe = {.zero = 3,
                                    .micro_batches = 2,
                                    .optimizer_states = 1,
                                    .offload = {.optimizer = Tier::kNvme,
                                                .params = Tier::kNvme,
                                                .grads = Tier::kNvme}},
                         .scratch = world.rank() == 0 ? harness::open_scratch : open},
                        world, optimizer);
        const Subject one = subject(DType::kF32, 4);
        for (int step = 0; step < 5; ++step)
          session.step({.step = step,
                        .update = {.lr = 0.01, .step = step + 1},
                        .load = [&](int mb) { return one.batch(step, mb); }});
        ADD_FAILURE() << "ran to the end";
      } catch (const Error&) {
        const std::lock_guard lock(mutex);
        ++ended;
        throw;
      }
    });
  };
  try {
    run();
    ADD_FAILURE() << "no rank failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(cause));
  }
  EXPECT_EQ(ended, 2);
}

TEST(Offload, FullSpaceEndsEveryRank) {
  expect_end([](Tier) { return std::make_unique<Full>(); }, "scratch: needs 10 bytes");
}

class FailingDisks : public testing::TestWithParam<scratch::Engine> {
 protected:
  void SetUp() override { TRIREME_NEEDS("disk engine", harness::missing(GetParam())); }
};

// A request fails long after it was issued: whoever waits for it says so, while values are drawn or in any later line.
TEST_P(FailingDisks, EndEveryRank) {
  for (const auto& [error, cause] :
       {std::pair(EIO, "Input/output error"), std::pair(ENOSPC, "No space left on device")})
    for (int good : {0, 3, 40, 100, 200}) {
      SCOPED_TRACE(testing::Message() << good << " before " << cause);
      harness::FailingDisk disk(error);
      disk.fail_after(good);
      expect_end([&](Tier) { return disk.open(GetParam()); }, cause);
    }
}

INSTANTIATE_TEST_SUITE_P(Engines, FailingDisks,
                         testing::Values(scratch::Engine::kThreads, scratch::Engine::kIoUring),
                         [](const auto& one) {
                           return one.param == scratch::Engine::kThreads ? "threads" : "io_uring";
                         });

// A slice that waits elsewhere is read and written like one in memory, wherever its pages begin and end.
TEST(Offload, SlicesAreReadAndWrittenWhereTheyWait) {
  for (Tier tier : {Tier::kHost, Tier::kNvme})
    comm::run_local_ranks(1, 20, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      Session session(layers(),
                      {.mesh = mesh::Mesh(),
                       .recipe = {.compute = DType::kBF16,
                                  .optimizer_states = 1,
                                  .offload = {.optimizer = tier, .params = tier}},
                       .scratch = harness::open_scratch},
                      world, optimizer);
      Units& units = session.units();
      EXPECT_EQ(units.memory().live, 0);
      for (StateSlice slice : units.local_slices()) {
        const at::Tensor before = units.read(slice).clone();
        EXPECT_EQ(before.numel(), slice.count);
        slice.offset += 50;
        slice.count = 20;
        units.write(slice, at::full({20}, 7, before.options()));
        at::Tensor expected = before.clone();
        expected.narrow(0, 50, 20).fill_(7);
        slice.offset -= 50;
        slice.count = before.numel();
        EXPECT_TRUE(units.read(slice).equal(expected)) << slice.kind;
      }
      units.refresh();
      EXPECT_EQ(units.memory().live, 0);
    });
}

}  // namespace
}  // namespace trireme::exec::offload_test
