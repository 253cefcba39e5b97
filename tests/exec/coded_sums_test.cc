// Coded sums of gradients: equal bits in every layout with equal senders, bytes and memory as the plan has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <utility>

#include "tests/exec/coded_cases.h"
#include "tests/harness/counting_world.h"
#include "tests/harness/ranks.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/simulate/cost.h"

namespace trireme::exec::coded_sums_test {
namespace {

using harness::Layout;
using harness::run_layout;
using harness::Subject;
using harness::Trace;
using plan::CodedSums;

using coded_cases::Degrees;
using coded_cases::kWidth;
using coded_cases::layout;
using coded_cases::subject;

CodedSums coded(const char* text, int senders, const char* back = nullptr,
                std::optional<DType> residual = std::nullopt) {
  CodedSums sums{.codec = codec::parse(text), .senders = senders, .residual = residual};
  if (back != nullptr) sums.back = codec::parse(back);
  return sums;
}

TEST(CodedSums, LayoutsWithEqualSendersGiveTheSameBits) {
  constexpr int kGlobal = 8, kSteps = 2;
  const Subject run = subject(kGlobal);
  const Trace dense = run_layout(run, layout({1, 1, 0}, kGlobal, std::nullopt), kSteps);
  const auto all = [&](const CodedSums& sums, const std::vector<Degrees>& others) {
    const Trace reference = run_layout(run, layout({1, 1, 0}, kGlobal, sums), kSteps);
    EXPECT_NE(reference, dense) << codec::print(sums.codec);
    EXPECT_LT(distance(reference, dense), 0.5) << codec::print(sums.codec);
    for (const Degrees& one : others) {
      const Layout other = layout(one, kGlobal, sums);
      EXPECT_EQ(run_layout(run, other, kSteps), reference)
          << other.name() << " " << codec::print(sums.codec) << " senders " << sums.senders;
    }
    return reference;
  };
  // Replicas of two shards are the senders; ranks with several senders keep their sums apart.
  const std::vector<Degrees> two = {{2, 1, 0}, {1, 2, 0}, {1, 2, 1}, {1, 1, 3},
                                    {2, 2, 1}, {2, 2, 2}, {2, 2, 3}};
  const std::vector<Degrees> four = {{2, 1, 0}, {1, 2, 1}, {4, 1, 0}, {2, 2, 0}, {1, 4, 1}};
  const Trace q8 = all(coded("q8", 2), two);
  EXPECT_NE(all(coded("q8", 4), four), q8);
  all(coded("q4", 2, "q8"), two);
  EXPECT_NE(all(coded("q4", 4, "q8"), four), all(coded("q4", 4), {{1, 4, 1}}));
  all(coded("f4", 2), {{2, 1, 0}, {2, 2, 2}});
  EXPECT_NE(all(coded("q8:stochastic", 2, "q8:stochastic"), two), q8);
  all(coded("q4:stochastic", 4), four);
  all(coded("bf16", 8), {{1, 2, 1}, {4, 1, 0}});
}

// The trace has the residuals of every sender too, from which a resumed run continues.
TEST(CodedSums, LayoutsWithEqualSendersHaveTheSameResiduals) {
  constexpr int kGlobal = 8, kSteps = 3;
  const Subject run = subject(kGlobal);
  for (const char* codec : {"q4", "q4:stochastic", "sign", "topk:0.01:16", "randk:0.1:16"})
    for (const DType residual : {DType::kF32, DType::kBF16}) {
      const CodedSums sums = coded(codec, 2, "q8", residual);
      const Trace reference = run_layout(run, layout({1, 1, 0}, kGlobal, sums), kSteps);
      for (const Degrees& one : std::vector<Degrees>{{2, 1, 0}, {1, 2, 1}, {2, 2, 1}, {2, 2, 3}}) {
        const Layout other = layout(one, kGlobal, sums);
        EXPECT_EQ(run_layout(run, other, kSteps), reference) << other.name() << " " << codec;
      }
    }
}

// By hand: gradients of a loss that is linear in the parameters are known, and equal in every step. What all steps have
// sent and what is left add up to what they were.
TEST(CodedSums, WhatWasSentAndWhatIsLeftAddUpToTheGradients) {
  constexpr int kSteps = 5;
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
  const auto linear = [] {
    static std::mutex one_generator;
    const std::lock_guard lock(one_generator);
    torch::nn::Linear layer(kWidth, kWidth);
    ModuleModel model("linear");
    model.input("x");
    model.input("y");
    model.add("layer", layer.ptr(), {"x"}, [=](const auto& in) mutable { return layer(in[0]); });
    model.loss("loss", {"layer", "y"}, [](const auto& in) { return (in[0] * in[1]).sum(); });
    return std::move(model).build();
  };
  const at::Tensor x = at::empty({1, kWidth}).normal_(), y = at::empty({1, kWidth}).normal_();
  // Weight [out, in], then bias.
  const at::Tensor gradient = at::cat(
      {at::outer(y[0].to(at::kDouble), x[0].to(at::kDouble)).flatten(), y[0].to(at::kDouble)});
  for (const char* codec : {"q8", "q4", "f4", "sign", "topk:0.05:32", "randk:0.1:32"}) {
    const Layout one = layout({1, 1, 0}, 1, coded(codec, 1, nullptr, DType::kF32));
    comm::run_local_ranks(1, 60, [&](comm::World& world) {
      Sum optimizer;
      Session session(linear(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                      optimizer);
      for (int step = 0; step < kSteps; ++step)
        session.step({.step = step, .update = {.step = step + 1, .noise = 3}, .load = [&](int) {
                        return std::vector<at::Tensor>{x, y};
                      }});
      at::Tensor sent, left;
      for (const StateSlice& slice : session.units().owned_slices()) {
        if (slice.kind == "sent") sent = session.units().read(slice).to(at::kDouble);
        if (slice.kind == "residual0") left = session.units().read(slice).to(at::kDouble);
      }
      EXPECT_GT(left.norm().item<double>(), 0) << codec;
      const double wrong = (sent + left - kSteps * gradient).norm().item<double>();
      EXPECT_LT(wrong, 1e-5 * kSteps * gradient.norm().item<double>()) << codec;
    });
  }
}

TEST(CodedSums, EveryBackEndGivesTheSameBits) {
  constexpr int kGlobal = 4;
  const Subject run = subject(kGlobal);
  const Trace reference =
      run_layout(run, layout({1, 1, 0}, kGlobal, coded("q4", 2, "q8")), /*steps=*/2);
  using harness::Backend;
  for (const Backend backend :
       {Backend::kShm, Backend::kGloo, Backend::kTcp, Backend::kTls, Backend::kHosts})
    for (const Degrees& degrees : std::vector<Degrees>{{2, 1, 0}, {1, 2, 1}, {2, 2, 1}}) {
      const Layout one = layout(degrees, kGlobal, coded("q4", 2, "q8"));
      Trace trace;
      harness::run_ranks(backend, mesh::Mesh(one.degrees).world(), 60, [&](comm::World& world) {
        Trace mine = harness::run_rank(run, one, 2, world);
        if (world.rank() == 0) trace = std::move(mine);
      });
      EXPECT_EQ(trace, reference) << harness::name(backend) << " " << one.name();
    }
}

// A sender whose sum is not finite has codes of NaN, which every rank finds in the norm, as without a codec.
TEST(CodedSums, OneSenderThatIsNotFiniteStopsEveryRank) {
  constexpr int kGlobal = 4;
  Subject run = subject(kGlobal);
  run.batch = [inner = run.batch](std::int64_t step, std::int64_t micro_batch) {
    std::vector<at::Tensor> batch = inner(step, micro_batch);
    if (step == 1 && micro_batch == 3) batch[0][0][0] = std::numeric_limits<float>::infinity();
    return batch;
  };
  for (const Degrees& degrees : std::vector<Degrees>{{1, 1, 0}, {1, 2, 1}, {2, 2, 1}}) try {
      run_layout(run, layout(degrees, kGlobal, coded("q8", 2)), 3);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("gradient norm nan"));
    }
}

struct Traffic {
  std::int64_t sent = 0, expected = 0;  // of all ranks
  double priced = 0;
};

// Bytes that rank number `rank` of the exchange sends: codes of the others' slices, then results of its own.
std::int64_t sent(const plan::CodedReduction& reduction, int rank) {
  const std::int64_t slice = reduction.slices()[rank];
  const std::int64_t codes = reduction.code_bytes(reduction.count) - reduction.code_bytes(slice);
  const std::int64_t results =
      reduction.scatters ? 0 : (reduction.ranks - 1) * reduction.back_bytes(slice);
  return reduction.own() * codes + results;
}

Traffic traffic_of(const Layout& layout, int global) {
  Traffic all;
  std::mutex mutex;
  const Subject run = subject(global);
  comm::run_local_ranks(mesh::Mesh(layout.degrees).world(), 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(layout.degrees), .recipe = layout.recipe},
                    world, *optimizer);
    session.step({.update = {.lr = 0.01}, .load = [&](int mb) { return run.batch(0, mb); }});
    std::int64_t expected = 0;
    double priced = 0;
    for (const plan::Instr& line : session.plan().list(world.rank())) {
      if (line.verb == plan::Verb::kUnshard) continue;
      if (line.unit >= 0 && !line.axes.empty())
        priced += simulate::sent_bytes(session.plan(), line);
      if (!line.coded) continue;
      const plan::CodedReduction reduction = plan::coded_reduction(session.plan(), line.unit);
      const int rank = session.plan().mesh.index_in_group(world.rank(), line.axes);
      expected += sent(reduction, rank);
    }
    const std::int64_t bytes =
        world.take_bytes_sent(layout.degrees.dp_replicate > 1 ? "dp_replicate" : "dp_shard");
    const std::lock_guard lock(mutex);
    all.sent += bytes;
    all.expected += expected;
    all.priced += priced;
  });
  return all;
}

TEST(CodedSums, OnlyCodesTravelAndTheirBytesAreThoseOfTheFormula) {
  constexpr int kGlobal = 4;
  constexpr std::int64_t kUnit = kWidth * (kWidth + 1), kBlocks = kUnit / 16, kUnits = 2;
  constexpr std::int64_t kNorm = 2 * 2 * kWidth * 4;  // the norm's 512 parameters, there and back
  // ZeRO-0, four ranks: each sends codes of 3 slices of 4, and its result to 3 others; the norm travels as it is.
  const Traffic q4 = traffic_of(layout({4, 1, 0}, kGlobal, coded("q4", 4)), kGlobal);
  EXPECT_EQ(q4.expected, kUnits * 3 * (kBlocks * 10 + 4 * kUnit));
  EXPECT_EQ(q4.sent, q4.expected + 3 * kNorm);
  EXPECT_DOUBLE_EQ(q4.priced, static_cast<double>(q4.sent));
  const Traffic back = traffic_of(layout({4, 1, 0}, kGlobal, coded("q4", 4, "q8")), kGlobal);
  EXPECT_EQ(back.expected, kUnits * 3 * (kBlocks * 10 + kBlocks * 18));
  EXPECT_EQ(back.sent, back.expected + 3 * kNorm);
  // Two senders a rank: their codes both travel, because their sum has none.
  const Traffic two = traffic_of(layout({2, 1, 0}, kGlobal, coded("q8", 4)), kGlobal);
  EXPECT_EQ(two.expected, kUnits * (2 * kBlocks * 18 + 4 * kUnit));
  EXPECT_EQ(two.sent, two.expected + kNorm);
  const Traffic one = traffic_of(layout({1, 1, 0}, kGlobal, coded("q8", 4)), kGlobal);
  EXPECT_EQ(one.sent, 0);
  EXPECT_EQ(one.expected, 0);
}

TEST(CodedSums, MemoryIsWhatThePlanPredicted) {
  constexpr int kGlobal = 8;
  for (const Degrees& degrees :
       std::vector<Degrees>{{1, 1, 0}, {2, 1, 0}, {1, 2, 1}, {4, 1, 0}, {1, 4, 1}, {1, 1, 1}}) {
    for (const std::optional<DType> residual :
         {std::optional<DType>(), std::optional(DType::kF32)}) {
      const Layout one = layout(degrees, kGlobal, coded("q4", 4, nullptr, residual));
      const Subject run = subject(kGlobal);
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
}

}  // namespace
}  // namespace trireme::exec::coded_sums_test
