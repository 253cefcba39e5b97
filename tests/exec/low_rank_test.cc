// Sums at low rank: equal bits in every layout with equal senders, bytes and memory as the plan has them.
#include "trireme/plan/low_rank.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

#include <limits>
#include <mutex>
#include <utility>

#include "tests/exec/coded_cases.h"
#include "tests/harness/counting_world.h"
#include "tests/harness/layouts.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/cost.h"
#include "trireme/plan/text/communications.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::exec::low_rank_test {
namespace {

using coded_cases::Degrees;
using coded_cases::kWidth;
using coded_cases::layout;
using harness::Layout;
using harness::run_layout;
using harness::Subject;
using harness::Trace;

plan::CodedSums coded(int rank, int senders, DType residual = DType::kF32) {
  return {.codec = codec::parse(fmt::format("lowrank:{}", rank)),
          .senders = senders,
          .residual = residual};
}

// A unit of two matrices, which two ranks distribute, and one of a single matrix.
Model layers() {
  static std::mutex one_generator;  // ranks are threads, torch::nn draws from the process's
  const std::lock_guard lock(one_generator);
  at::manual_seed(5);
  torch::nn::Sequential first(torch::nn::Linear(kWidth, 192), torch::nn::Linear(192, kWidth));
  torch::nn::Linear second(kWidth, kWidth);
  ModuleModel model("layers");
  model.input("x");
  model.input("y");
  model.add("first", first.ptr(), {"x"},
            [=](const auto& in) mutable { return first->forward(in[0]).tanh(); });
  model.add("second", second.ptr(), {"first"},
            [=](const auto& in) mutable { return second(in[0]); });
  model.loss("loss", {"second", "y"},
             [](const auto& in) { return (in[0] - in[1]).square().sum(); });
  return std::move(model).build();
}
constexpr std::int64_t kFirst = 2 * kWidth * 192 + 192 + kWidth;  // elements
constexpr std::int64_t kSides = 2 * (kWidth + 192) + 2 * kWidth, kVectors = 192 + 2 * kWidth;

Subject subject(int global) {
  Subject run = coded_cases::subject(global);
  run.model = layers;
  return run;
}

// One rank, step by step.
void with_session(const Layout& one, const Subject& run, const std::function<void(Session&)>& use) {
  comm::run_local_ranks(1, 60, [&](comm::World& world) {
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                    *optimizer);
    use(session);
  });
}

StepArgs args_of(const Subject& run, int step) {
  return {.step = step,
          .loss_scale = run.loss_scale,
          .update = {.lr = 1e-2, .step = step + 1, .noise = 1},
          .clip = run.clip,
          .load = [&run, step](int mb) { return run.batch(step, mb); }};
}

// All of one kind, or of kinds that begin with it.
at::Tensor state(Session& session, std::string_view kind) {
  std::vector<at::Tensor> all;
  for (const StateSlice& slice : session.units().owned_slices())
    if (slice.kind.starts_with(kind))
      all.push_back(session.units().read(slice).to(at::kDouble).clone());
  return at::cat(all);
}

TEST(LowRankSums, LayoutsWithEqualSendersGiveTheSameBits) {
  constexpr int kGlobal = 8, kSteps = 2;
  const Subject run = subject(kGlobal);
  std::vector<Trace> references;
  for (const auto& [senders, residual, others] :
       {std::tuple{
            2, DType::kF32,
            std::vector<Degrees>{{2, 1, 0}, {1, 2, 0}, {1, 2, 1}, {2, 2, 1}, {2, 2, 2}, {2, 2, 3}}},
        std::tuple{2, DType::kBF16, std::vector<Degrees>{{1, 2, 1}, {2, 2, 1}}},
        std::tuple{4, DType::kF32,
                   std::vector<Degrees>{{2, 1, 0}, {1, 2, 1}, {4, 1, 0}, {2, 2, 0}, {1, 4, 1}}}}) {
    const plan::CodedSums sums = coded(4, senders, residual);
    references.push_back(run_layout(run, layout({1, 1, 0}, kGlobal, sums), kSteps));
    for (const Degrees& one : others) {
      const Layout other = layout(one, kGlobal, sums);
      EXPECT_EQ(run_layout(run, other, kSteps), references.back())
          << other.name() << " senders " << senders << " residuals " << name(residual);
    }
  }
  EXPECT_NE(references[0], references[1]);
  // The sum is the same but for roundings, which a loss of few digits need not show: parameters do.
  EXPECT_NE(references[0].states.front(), references[2].states.front());
}

// Gradients of 16 rows have rank 16: factors of 32 columns leave nothing out.
TEST(LowRankSums, FactorsOfAllTheRankThereIsGiveTheDenseSum) {
  constexpr int kGlobal = 8;
  const Subject run = subject(kGlobal);
  const auto after = [&](const Layout& one) {
    at::Tensor params;
    with_session(one, run, [&](Session& session) {
      const at::Tensor before = state(session, "param");
      for (int step = 0; step < 2; ++step) session.step(args_of(run, step));
      params = state(session, "param") - before;
    });
    return params;
  };
  const at::Tensor dense = after(layout({1, 1, 0}, kGlobal, std::nullopt));
  for (const int senders : {1, 4}) {
    const at::Tensor sums = after(layout({1, 1, 0}, kGlobal, coded(32, senders)));
    EXPECT_LT((sums - dense).norm().item<double>(), 1e-5 * dense.norm().item<double>()) << senders;
  }
  const at::Tensor few = after(layout({1, 1, 0}, kGlobal, coded(2, 1)));
  EXPECT_GT((few - dense).norm().item<double>(), 0.01 * dense.norm().item<double>());
}

// Gradients of a loss that is linear in the parameters are known, and equal in every step. All that was sent and what
// is left add up to them.
TEST(LowRankSums, WhatWasSentAndWhatIsLeftAddUpToTheGradients) {
  constexpr int kSteps = 5, kSenders = 2;
  class Sum : public Optimizer {
   public:
    const std::vector<StateSpec>& states() const override { return states_; }
    void update(at::Tensor, const at::Tensor& grad, std::span<at::Tensor> states,
                std::span<const UpdateSegment>, const UpdateArgs& args) override {
      states[0].add_(grad * args.grad_scale);
    }

   private:
    std::vector<StateSpec> states_ = {{.name = "sent"}};
  };
  Subject run{.model =
                  [] {
                    torch::nn::Linear layer(kWidth, kWidth);
                    ModuleModel model("linear");
                    model.input("x");
                    model.input("y");
                    model.add("layer", layer.ptr(), {"x"},
                              [=](const auto& in) mutable { return layer(in[0]); });
                    model.loss("loss", {"layer", "y"},
                               [](const auto& in) { return (in[0] * in[1]).sum(); });
                    return std::move(model).build();
                  },
              .optimizer = [] { return std::make_unique<Sum>(); }};
  std::vector<at::Tensor> x, y;
  at::Tensor weight = at::zeros({kWidth, kWidth}, at::kDouble);
  at::Tensor bias = at::zeros({kWidth}, at::kDouble);
  for (int mb = 0; mb < kSenders; ++mb) {
    x.push_back(at::empty({8, kWidth}).normal_());
    y.push_back(at::empty({8, kWidth}).normal_());
    weight += y[mb].to(at::kDouble).t().mm(x[mb].to(at::kDouble));
    bias += y[mb].to(at::kDouble).sum(0);
  }
  run.batch = [&](std::int64_t, std::int64_t mb) { return std::vector<at::Tensor>{x[mb], y[mb]}; };
  const at::Tensor gradient = at::cat({weight.flatten(), bias});
  for (const double scale : {1.0, 256.0})
    with_session(layout({1, 1, 0}, kSenders, coded(4, kSenders)), run, [&](Session& session) {
      for (int step = 0; step < kSteps; ++step) {
        StepArgs args = args_of(run, step);
        args.gradient_scale = scale;
        session.step(args);
      }
      const at::Tensor left = state(session, "residual").view({kSenders, -1}).sum(0);
      EXPECT_GT(left.norm().item<double>(), 0.01 * gradient.norm().item<double>());
      const at::Tensor wrong = state(session, "sent") + left - kSteps * gradient;
      EXPECT_LT(wrong.norm().item<double>(), 1e-5 * kSteps * gradient.norm().item<double>());
    });
}

// Steps before codes begin have the bits of a run without codes, and leave residuals as they are.
TEST(LowRankSums, UncodedStepsAreThoseOfADenseRun) {
  constexpr int kGlobal = 4;
  const Subject run = subject(kGlobal);
  at::Tensor dense;
  with_session(layout({1, 1, 0}, kGlobal, std::nullopt), run, [&](Session& session) {
    for (int step = 0; step < 2; ++step) session.step(args_of(run, step));
    dense = state(session, "param");
  });
  with_session(layout({1, 1, 0}, kGlobal, coded(4, 2)), run, [&](Session& session) {
    for (int step = 0; step < 2; ++step) {
      StepArgs args = args_of(run, step);
      args.uncoded = true;
      session.step(args);
    }
    EXPECT_TRUE(at::equal(state(session, "param"), dense));
    EXPECT_EQ(state(session, "residual").norm().item<double>(), 0);
    EXPECT_EQ(state(session, "low_rank").norm().item<double>(), 0);
    session.step(args_of(run, 2));
    EXPECT_GT(state(session, "residual").norm().item<double>(), 0);
    EXPECT_GT(state(session, "low_rank").norm().item<double>(), 0);
  });
}

TEST(LowRankSums, AStepThatIsNotFiniteLeavesResidualsAndFactors) {
  constexpr int kGlobal = 2;
  Subject run = subject(kGlobal);
  run.batch = [inner = run.batch](std::int64_t step, std::int64_t micro_batch) {
    std::vector<at::Tensor> batch = inner(step, micro_batch);
    if (step == 1 && micro_batch == 1) batch[0][0][0] = std::numeric_limits<float>::infinity();
    return batch;
  };
  with_session(layout({1, 1, 0}, kGlobal, coded(4, 2)), run, [&](Session& session) {
    session.step(args_of(run, 0));
    const at::Tensor residual = state(session, "residual"), factors = state(session, "low_rank");
    StepArgs args = args_of(run, 1);
    args.skip_overflow = true;
    EXPECT_TRUE(session.step(args).skipped);
    args = args_of(run, 2);
    args.apply = false;
    session.step(args);
    EXPECT_TRUE(at::equal(state(session, "residual"), residual));
    EXPECT_TRUE(at::equal(state(session, "low_rank"), factors));
  });
}

// Of all ranks, over one axis: counted, and as the plan has them without gathers of parameters.
struct Bytes {
  std::int64_t counted = 0;
  double priced = 0;
};
Bytes bytes_of(const Layout& layout, int global, const char* axis) {
  Bytes all;
  std::mutex mutex;
  const Subject run = subject(global);
  comm::run_local_ranks(mesh::Mesh(layout.degrees).world(), 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(layout.degrees), .recipe = layout.recipe},
                    world, *optimizer);
    StepArgs args = args_of(run, 0);
    session.step(args);
    double priced = 0;
    for (const plan::Instr& line : session.plan().list(world.rank()))
      if (line.verb == plan::Verb::kReduceGrads)
        priced += simulate::sent_bytes(session.plan(), line);
    const std::int64_t counted = world.take_bytes_sent(axis);
    const std::lock_guard lock(mutex);
    all.counted += counted;
    all.priced += priced;
  });
  return all;
}

TEST(LowRankSums, OnlyFactorsAndVectorsTravelBetweenHosts) {
  constexpr int kGlobal = 4, kRank = 4;
  for (const int hosts : {2, 4}) {
    const Bytes bytes =
        bytes_of(layout({hosts, 1, 0}, kGlobal, coded(kRank, hosts)), kGlobal, "dp_replicate");
    EXPECT_EQ(bytes.counted, 8 * (kRank * kSides + kVectors) * (hosts - 1)) << hosts;
    EXPECT_DOUBLE_EQ(bytes.priced, static_cast<double>(bytes.counted));
  }
  // Two senders on a rank are added there.
  const Bytes two = bytes_of(layout({2, 1, 0}, kGlobal, coded(kRank, 4)), kGlobal, "dp_replicate");
  EXPECT_EQ(two.counted, 8 * (kRank * kSides + kVectors));
  const Bytes shards =
      bytes_of(layout({2, 2, 1}, kGlobal, coded(kRank, 2)), kGlobal, "dp_replicate");
  EXPECT_EQ(shards.counted, 8 * (kRank * kSides + kVectors));
}

TEST(LowRankSums, TwoRanksOfAHostDistributeMatrices) {
  const Layout one = layout({2, 2, 1}, 4, coded(4, 2));
  const plan::PlanSet plan =
      plan::compile(layers().spec.program, mesh::Mesh(one.degrees), one.recipe);
  const plan::LowRank low = plan::low_rank(plan, 0);
  ASSERT_EQ(low.owners.size(), 2u);
  std::int64_t held = 0;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(low.owners[rank].matrices, kWidth * 192);
    for (const auto& [begin, end, at] : plan::residual_ranges(plan, rank, 0)) held += end - begin;
  }
  EXPECT_EQ(held, kFirst);
  EXPECT_EQ(low.factors, 2 * 4 * (kWidth + 192));
  EXPECT_GE(low.starts, 4 * (kWidth + 192));
  EXPECT_EQ(plan::low_rank(plan, 1).owners[1].matrices, 0);  // of the one matrix of the other
  EXPECT_EQ(plan::parse(plan::print(plan)), plan);
  double explained = 0;
  for (int rank = 0; rank < 2; ++rank)
    for (const plan::Communication& one : plan::communications(plan, rank))
      if (one.what.starts_with("reduce_grads (all, coded)")) explained += one.bytes;
  EXPECT_EQ(explained, 4 * (4 * kSides + kVectors));
}

TEST(LowRankSums, MemoryIsWhatThePlanPredicted) {
  constexpr int kGlobal = 8;
  const Subject run = subject(kGlobal);
  for (const Degrees& degrees :
       std::vector<Degrees>{{1, 1, 0}, {2, 1, 0}, {1, 2, 1}, {1, 4, 1}, {2, 2, 1}, {2, 2, 3}}) {
    const int senders = degrees.replicate * degrees.shard > 2 && degrees.replicate < 2 ? 4 : 2;
    const Layout one = layout(degrees, kGlobal, coded(4, senders));
    comm::run_local_ranks(mesh::Mesh(one.degrees).world(), 60, [&](comm::World& world) {
      const std::unique_ptr<Optimizer> optimizer = run.optimizer();
      Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                      *optimizer);
      session.step({.update = {.lr = 0.01}, .load = [&](int mb) { return run.batch(0, mb); }});
      std::int64_t peak = 0;
      const plan::MemoryAccount account = plan::memory_account(session.plan(), world.rank());
      for (const plan::MemoryPoint& point : account.at_line) {
        std::int64_t sum = 0;
        for (int kind = 0; kind < plan::kMemoryKinds; ++kind)
          if (kind != static_cast<int>(plan::MemoryKind::kActivations)) sum += point[kind];
        peak = std::max(peak, sum);
      }
      EXPECT_EQ(session.units().memory().peak, peak) << one.name() << " rank " << world.rank();
    });
  }
}

}  // namespace
}  // namespace trireme::exec::low_rank_test
