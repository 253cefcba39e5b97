// Any layout trains the same model: a chain of torch modules under every row of the lifetime table.
#include "trireme/exec/session.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "trireme/base/hash.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/exec/module_block.h"

namespace trireme::exec::session_test {
namespace {

using harness::Layout;
using harness::MomentumSgd;
using harness::run_layout;
using harness::Subject;
using harness::Trace;

constexpr std::int64_t kSamples = 3;
constexpr std::int64_t kWidth = 24;

;

// Three linear layers with a skip around the second, squared error against a target.
Model chain(at::ScalarType type) {
  static std::mutex
      one_generator;  // ranks are threads, torch::nn draws from the process's generator
  const std::lock_guard lock(one_generator);
  at::manual_seed(5);
  torch::nn::Linear first(7, kWidth), second(kWidth, kWidth), third(kWidth, 3);
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({kWidth}));
  for (auto module : std::vector<std::shared_ptr<torch::nn::Module>>{first.ptr(), second.ptr(),
                                                                     third.ptr(), norm.ptr()})
    module->to(type);
  ModuleModel model("chain");
  model.input("x");
  model.input("y");
  model.add("first", first.ptr(), {"x"},
            [=](const auto& in) mutable { return first(in[0]).tanh(); });
  model.add("second", second.ptr(), {"first"},
            [=](const auto& in) mutable { return second(in[0]).tanh(); });
  model.add("norm", norm.ptr(), {"second", "first"},
            [=](const auto& in) mutable { return norm(in[0] + in[1]); });
  model.add("third", third.ptr(), {"norm"}, [=](const auto& in) mutable { return third(in[0]); });
  model.loss("loss", {"third", "y"}, [](const auto& in) { return (in[0] - in[1]).square().sum(); });
  return std::move(model).build();
}

Subject subject(at::ScalarType type, int global_micro_batches) {
  return {.model = [=] { return chain(type); },
          .optimizer = [] { return std::make_unique<MomentumSgd>(); },
          .batch =
              [=](std::int64_t step, std::int64_t micro_batch) {
                const BlockContext context{.seed = 11, .step = step, .micro_batch = micro_batch};
                const auto options = at::TensorOptions().dtype(type);
                return std::vector<at::Tensor>{
                    at::empty({kSamples, 7}, options).normal_(0, 1, context.generator(0)),
                    at::empty({kSamples, 3}, options).normal_(0, 1, context.generator(1))};
              },
          .loss_scale = 1.0 / static_cast<double>(kSamples * global_micro_batches),
          .clip = 0.5};
}

Layout layout(int replicate, int shard, int zero, int micro_batches, DType type, int segments = 0) {
  Layout result;
  result.degrees = {.dp_replicate = replicate, .dp_shard = shard};
  result.segments = segments;
  result.recipe = {.zero = zero,
                   .micro_batches = micro_batches,
                   .compute = type,
                   .master = type,
                   .grads = type,
                   .optimizer_states = 1};
  return result;
}

class SessionParity : public testing::TestWithParam<DType> {};

TEST_P(SessionParity, EveryDataParallelLayoutGivesTheSameBits) {
  const DType type = GetParam();
  const at::ScalarType scalar = type == DType::kF64 ? at::kDouble : at::kFloat;
  for (int global : {4, 8}) {
    const Subject run = subject(scalar, global);
    const Trace reference = run_layout(run, layout(1, 1, 0, global, type), 3);
    for (int zero : {0, 1, 2, 3})
      for (const auto& [replicate, shard] : std::vector<std::pair<int, int>>{
               {1, 1}, {1, 2}, {2, 1}, {1, 4}, {2, 2}, {4, 1}, {1, 8}, {2, 4}, {4, 2}}) {
        if (replicate * shard > global) continue;
        for (int segments : {0, 1, 2}) {
          const Layout other =
              layout(replicate, shard, zero, global / (replicate * shard), type, segments);
          EXPECT_EQ(run_layout(run, other, 3), reference) << other.name();
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SessionParity, testing::Values(DType::kF64, DType::kF32));

TEST(Session, ThreeRanksAgreeToRounding) {
  const Subject run = subject(at::kDouble, 6);
  const Trace reference = run_layout(run, layout(1, 1, 0, 6, DType::kF64), 3);
  for (int zero : {0, 1, 2, 3}) {
    const Trace other = run_layout(run, layout(1, 3, zero, 2, DType::kF64), 3);
    EXPECT_LT(harness::distance(reference, other), 1e-13) << zero;
  }
}

// One unit is whole on every rank, or sharded over the replicas of the others.
TEST(Session, AUnitMayBeSharedOverOtherAxes) {
  const Subject usual = subject(at::kDouble, 4);
  const Trace reference = run_layout(usual, layout(1, 1, 0, 4, DType::kF64), 3);
  const auto over = [&](mesh::AxisSet shards) {
    Subject other = usual;
    other.model = [shards] {
      Model model = chain(at::kDouble);
      model.spec.program.units[1].axes.shards = shards;
      return model;
    };
    return other;
  };
  for (int zero : {1, 2, 3}) {
    const Layout four = layout(2, 2, zero, 1, DType::kF64);
    const Layout two = layout(1, 2, zero, 2, DType::kF64);
    EXPECT_EQ(run_layout(over({}), four, 3), reference) << zero;
    EXPECT_LT(harness::distance(reference, run_layout(over({}), two, 3)), 1e-13) << zero;
    // Sums over the replicas come first, in another tree.
    const Trace crossed = run_layout(over(mesh::Axis::kDpReplicate), four, 3);
    EXPECT_LT(harness::distance(reference, crossed), 1e-13) << zero;
  }
}

// Two ranks meet inside a block, and one comes late: the other waits for it, and computes no longer than before.
TEST(Session, WaitsInsideBlocksAreForOthers) {
  constexpr double kLate = 0.4;
  comm::run_local_ranks(2, 60, [&](comm::World& world) {
    const auto group = world.make_group("inside", {0, 1});
    ModuleModel model("meeting");
    model.input("x");
    model.input("y");
    torch::nn::Linear linear(7, 3);
    linear->to(at::kDouble);
    model.add("meet", linear.ptr(), {"x"}, [&, linear](const auto& in) mutable {
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
      group->barrier().wait();
      return linear(in[0]);
    });
    model.loss("loss", {"meet", "y"},
               [](const auto& in) { return (in[0] - in[1]).square().sum(); });
    MomentumSgd updater;
    const Layout layout = session_test::layout(1, 2, 0, 1, DType::kF64);
    Session session(std::move(model).build(),
                    {.mesh = mesh::Mesh(layout.degrees), .recipe = layout.recipe, .seed = 1}, world,
                    updater);
    const Subject run = subject(at::kDouble, 2);
    std::vector<LineTime> times;
    const StepResult result = session.step({.loss_scale = run.loss_scale,
                                            .update = {.lr = 1e-2, .step = 1},
                                            .load = [&](int mb) { return run.batch(0, mb); },
                                            .times = &times});
    const std::size_t forward = busy_kind(plan::Verb::kForward);
    EXPECT_GT(result.busy[1][forward], 0.9 * kLate);
    EXPECT_LT(result.busy[0][forward], 0.5 * kLate);
    if (world.rank() == 1) return;
    EXPECT_GT(result.comm_wait_s, 0.5 * kLate);
    double waited = 0;
    for (const LineTime& line : times) {
      EXPECT_LE(line.waited, line.end - line.start);
      waited += line.waited;
    }
    EXPECT_GT(waited, 0.5 * kLate);
  });
}

TEST(Session, MatchesPlainAutograd) {
  const Subject run = subject(at::kDouble, 1);
  const Trace trace = run_layout(run, layout(1, 1, 0, 1, DType::kF64), 1);
  Model model = chain(at::kDouble);
  // The same loss through one autograd graph: blocks still hold their modules' own parameters.
  const std::vector<at::Tensor> batch = run.batch(0, 0);
  const BlockContext context{};
  const at::Tensor first = model.blocks[0]->forward({batch[0]}, context)[0];
  const at::Tensor second = model.blocks[1]->forward({first}, context)[0];
  const at::Tensor norm = model.blocks[2]->forward({second, first}, context)[0];
  const at::Tensor third = model.blocks[3]->forward({norm}, context)[0];
  const at::Tensor loss = model.blocks[4]->forward({third, batch[1]}, context)[0] * run.loss_scale;
  EXPECT_NEAR(loss.item<double>(), trace.losses[0], 1e-15);
}

TEST(Session, ANonFiniteLossStopsBeforeAnyParameterChanges) {
  Subject run = subject(at::kDouble, 2);
  const auto batch = run.batch;
  run.batch = [=](std::int64_t step, std::int64_t micro_batch) {
    auto inputs = batch(step, micro_batch);
    if (micro_batch == 1) inputs[0].fill_(NAN);
    return inputs;
  };
  try {
    run_layout(run, layout(1, 2, 3, 1, DType::kF64), 1);
    FAIL() << "a NaN went unnoticed";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kNonFinite) << e.what();
  }
}

}  // namespace
}  // namespace trireme::exec::session_test
