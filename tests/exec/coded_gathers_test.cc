// Coded gathers of parameters, and codes of every micro-batch: equal bits in every layout, bytes and memory as the plan
// has them.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "tests/exec/coded_cases.h"
#include "tests/harness/counting_world.h"
#include "tests/harness/ranks.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/plan/coded_gather.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/simulate/cost.h"

namespace trireme::exec::coded_gathers_test {
namespace {

using coded_cases::Degrees;
using coded_cases::kWidth;
using harness::Layout;
using harness::run_layout;
using harness::Subject;
using harness::Trace;
using plan::CodedGather;
using plan::CodedSums;

constexpr std::int64_t kUnit = kWidth * (kWidth + 1), kUnits = 2;  // blocks of 16

CodedGather gather(const char* codec, int within = 0) {
  return {.codec = codec::parse(codec), .within = within};
}
CodedSums sums(const char* codec, int senders) {
  return {.codec = codec::parse(codec), .senders = senders};
}
CodedSums with_residuals(const char* codec, int senders, int residuals, DType type = DType::kF32) {
  return {
      .codec = codec::parse(codec), .senders = senders, .residual = type, .residuals = residuals};
}

Subject subject(int global, DType compute = DType::kF32) {
  Subject run = coded_cases::subject(global);
  if (compute == DType::kBF16)
    run.batch = [inner = run.batch](std::int64_t step, std::int64_t micro_batch) {
      std::vector<at::Tensor> batch = inner(step, micro_batch);
      for (at::Tensor& value : batch) value = value.to(at::kBFloat16);
      return batch;
    };
  return run;
}

TEST(CodedGathers, EveryLayoutGivesTheBitsOfOneRank) {
  constexpr int kGlobal = 8, kSteps = 2;
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    const Subject run = subject(kGlobal, compute);
    const auto one = [&](const Degrees& degrees, std::optional<CodedGather> codes) {
      return coded_cases::layout(degrees, kGlobal, std::nullopt, std::move(codes), compute);
    };
    const Trace dense = run_layout(run, one({1, 1, 0}, std::nullopt), kSteps);
    for (const char* codec : {"q8", "bf16", "q4", "f4"}) {
      const Trace reference = run_layout(run, one({1, 1, 0}, gather(codec)), kSteps);
      EXPECT_NE(reference, dense) << codec;
      EXPECT_LT(distance(reference, dense), 0.5) << codec;
      const auto expect_same = [&](const Degrees& degrees, int within) {
        const Layout other = one(degrees, gather(codec, within));
        EXPECT_EQ(run_layout(run, other, kSteps), reference)
            << other.name() << " " << codec << " within " << within << " " << name(compute);
      };
      for (const Degrees& degrees : std::vector<Degrees>{{1, 2, 1}, {1, 2, 2}, {2, 2, 3}})
        expect_same(degrees, 0);
      expect_same({1, 4, 3}, 2);
      if (std::string_view(codec) != "q8") continue;
      for (const Degrees& degrees : std::vector<Degrees>{
               {2, 1, 0}, {4, 1, 0}, {1, 1, 3}, {1, 2, 3}, {1, 4, 1}, {2, 2, 1}, {2, 2, 2}})
        expect_same(degrees, 0);
      for (const int within : {1, 4}) expect_same({1, 4, 3}, within);
      expect_same({1, 2, 3}, 2);
      expect_same({2, 2, 3}, 2);
    }
  }
}

// A cut below the micro-batches of shards has the bits of as many senders anywhere.
TEST(CodedGathers, CodesOfEveryMicroBatchHaveTheBitsOfAsManySenders) {
  constexpr int kGlobal = 8, kSteps = 2;
  const Subject run = subject(kGlobal);
  for (const char* codec : {"q8", "q4", "q4:stochastic"})
    for (const int senders : {8, 4}) {
      const auto one = [&](const Degrees& degrees) {
        return coded_cases::layout(degrees, kGlobal, sums(codec, senders), gather("q8"));
      };
      const Trace reference = run_layout(run, one({1, 1, 0}), kSteps);
      std::vector<Degrees> others = {{1, 2, 2}, {1, 2, 3}, {1, 4, 3}, {1, 4, 2}, {2, 1, 0}};
      if (senders == 8) others.push_back({1, 8, 3});
      for (const Degrees& degrees : others) {
        const Layout other = one(degrees);
        EXPECT_EQ(run_layout(run, other, kSteps), reference)
            << other.name() << " " << codec << " senders " << senders;
      }
    }
}

// Residuals go from micro-batch to micro-batch, also where one rank has all senders of a step.
TEST(CodedGathers, ResidualsOfMicroBatchesHaveTheBitsOfAsManySenders) {
  constexpr int kGlobal = 8, kSteps = 3;
  const Subject run = subject(kGlobal);
  struct Case {
    int senders, residuals;
    std::vector<Degrees> layouts;
  };
  for (const char* codec : {"q4", "sign"})
    for (const Case& one : std::vector<Case>{{8, 2, {{1, 2, 2}, {1, 2, 3}}},
                                             {8, 4, {{1, 4, 3}, {1, 2, 3}, {1, 4, 2}}},
                                             {4, 2, {{1, 4, 3}, {1, 2, 2}}},
                                             {4, 4, {{1, 2, 3}, {2, 2, 0}}}}) {
      const CodedSums codes = with_residuals(codec, one.senders, one.residuals, DType::kBF16);
      const auto trace = [&](const Degrees& degrees, const CodedSums& how) {
        return run_layout(run, coded_cases::layout(degrees, kGlobal, how, gather("q8")), kSteps);
      };
      const Trace reference = trace({1, 1, 0}, codes);
      CodedSums own = codes;
      own.residuals = 0;  // one for each sender
      EXPECT_EQ(trace({1, 1, 0}, own) == reference, one.residuals == one.senders);
      for (const Degrees& degrees : one.layouts)
        EXPECT_EQ(trace(degrees, codes), reference)
            << codec << " " << one.senders << " senders, " << one.residuals << " residuals, dp "
            << degrees.replicate << " x " << degrees.shard << " zero " << degrees.zero;
    }
}

TEST(CodedGathers, AStepThatIsNotAppliedLeavesResidualsAsTheyWere) {
  constexpr int kGlobal = 8;
  const Subject run = subject(kGlobal);
  const Layout one = coded_cases::layout({1, 2, 3}, kGlobal, with_residuals("q4", 8, 0));
  comm::run_local_ranks(2, 60, [&](comm::World& world) {
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                    *optimizer);
    const auto step = [&](int number, bool apply) {
      session.step({.step = number,
                    .loss_scale = run.loss_scale,
                    .apply = apply,
                    .update = {.lr = 0.01, .step = number + 1},
                    .load = [&](int mb) { return run.batch(number, mb); }});
    };
    const auto residuals = [&] {
      std::vector<at::Tensor> all;
      for (const StateSlice& slice : session.units().owned_slices())
        if (slice.sender >= 0) all.push_back(session.units().read(slice).clone());
      return all;
    };
    step(0, true);
    const std::vector<at::Tensor> before = residuals();
    EXPECT_EQ(before.size(), static_cast<std::size_t>(kUnits));  // one sender a rank
    step(1, false);
    const std::vector<at::Tensor> after = residuals();
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_GT(before[i].norm().item<double>(), 0);
      EXPECT_TRUE(at::equal(before[i], after[i]));
    }
  });
}

TEST(CodedGathers, EveryBackEndGivesTheSameBits) {
  constexpr int kGlobal = 8;
  const Subject run = subject(kGlobal);
  const auto one = [&](const Degrees& degrees, int within) {
    return coded_cases::layout(degrees, kGlobal, sums("q4", 4), gather("q8", within));
  };
  const Trace reference = run_layout(run, one({1, 1, 0}, 0), /*steps=*/2);
  using harness::Backend;
  for (const Backend backend :
       {Backend::kShm, Backend::kGloo, Backend::kTcp, Backend::kTls, Backend::kHosts}) {
    const Layout layout = one({1, 4, 3}, 2);
    Trace trace;
    harness::run_ranks(backend, 4, 60, [&](comm::World& world) {
      Trace mine = harness::run_rank(run, layout, 2, world);
      if (world.rank() == 0) trace = std::move(mine);
    });
    EXPECT_EQ(trace, reference) << harness::name(backend);
  }
}

// By hand: a layer's parameters are its masters coded and decoded, and masters are exact.
TEST(CodedGathers, BlocksComputeWithWhatCodesDecodeTo) {
  constexpr int kGlobal = 4;
  const Subject run = subject(kGlobal);
  for (const Degrees& degrees : std::vector<Degrees>{{1, 1, 0}, {1, 2, 1}, {1, 2, 2}}) {
    const Layout one = coded_cases::layout(degrees, kGlobal, std::nullopt, gather("q8"));
    comm::run_local_ranks(degrees.shard, 60, [&](comm::World& world) {
      const std::unique_ptr<Optimizer> optimizer = run.optimizer();
      Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                      *optimizer);
      const auto check = [&] {
        Units& units = session.units();
        units.gather_stale();
        for (const StateSlice& slice : units.local_slices()) {
          if (slice.kind != "param" || session.plan().program.units[slice.unit].numel != kUnit)
            continue;
          const at::Tensor master = units.read(slice).contiguous();
          const std::int64_t block = codec::block_of(codec::parse("q8"), plan::norm_chunk(kUnit));
          const std::int64_t whole = (slice.count + block - 1) / block * block;
          at::Tensor padded = at::zeros({whole});
          padded.narrow(0, 0, slice.count).copy_(master);
          std::vector<std::byte> codes(
              static_cast<std::size_t>(codec::coded_bytes(codec::parse("q8"), whole, block)));
          const codec::Segment segment{
              .block = block, .first = slice.offset / block, .real = slice.count};
          const auto count = static_cast<std::size_t>(whole);
          codec::encode(codec::parse("q8"), segment, {}, {padded.data_ptr<float>(), count}, codes);
          codec::decode(codec::parse("q8"), segment, {}, codes, {padded.data_ptr<float>(), count});
          const at::Tensor weight = units.param(slice.unit, 0).detach().flatten();
          const std::int64_t shared = std::min(slice.count, weight.numel() - slice.offset);
          const at::Tensor used = weight.narrow(0, slice.offset, shared);
          EXPECT_TRUE(at::equal(used, padded.narrow(0, 0, shared)));
          EXPECT_FALSE(at::equal(used, master.narrow(0, 0, shared)));
          EXPECT_TRUE(at::allclose(used, master.narrow(0, 0, shared), 0, 1e-2));
        }
      };
      check();
      for (int step = 0; step < 2; ++step)
        session.step({.step = step,
                      .loss_scale = run.loss_scale,
                      .update = {.lr = 0.01, .step = step + 1},
                      .load = [&](int mb) { return run.batch(step, mb); }});
      check();
    });
  }
}

// Evaluation computes with the decoded weights too, whose gathers its plan does not name.
TEST(CodedGathers, EvaluationsOfEveryLayoutAreEqual) {
  constexpr int kGlobal = 4;
  const Subject run = subject(kGlobal);
  const auto loss = [&](const Degrees& degrees, std::optional<CodedGather> codes) {
    const Layout one = coded_cases::layout(degrees, kGlobal, std::nullopt, std::move(codes));
    std::atomic<double> found = 0;
    comm::run_local_ranks(mesh::Mesh(one.degrees).world(), 60, [&](comm::World& world) {
      const std::unique_ptr<Optimizer> optimizer = run.optimizer();
      Session session(run.model(), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe}, world,
                      *optimizer);
      const auto batch = [&](int mb) {
        return run.batch(
            0, plan::micro_batch_id(session.plan().mesh, session.plan().recipe, world.rank(), mb));
      };
      session.step({.loss_scale = run.loss_scale, .update = {.lr = 0.1, .step = 1}, .load = batch});
      const double mine = session.evaluate({.load = batch}).loss;
      if (world.rank() == 0) found = mine;
    });
    return found.load();
  };
  const double reference = loss({1, 1, 0}, gather("q8"));
  EXPECT_NE(reference, loss({1, 1, 0}, std::nullopt));
  EXPECT_EQ(loss({1, 2, 1}, gather("q8")), reference);
  EXPECT_EQ(loss({1, 2, 3}, gather("q8", 2)), reference);
  EXPECT_EQ(loss({2, 2, 3}, gather("q8")), reference);
}

TEST(CodedGathers, MemoryIsWhatThePlanPredicted) {
  constexpr int kGlobal = 8;
  const Subject run = subject(kGlobal);
  struct Case {
    Degrees degrees;
    int within, senders, residuals = 0;
  };
  for (const Case& one : std::vector<Case>{{{1, 1, 0}, 0, 0},
                                           {{1, 1, 0}, 0, 8, 2},
                                           {{1, 4, 3}, 2, 8, 4},
                                           {{1, 4, 3}, 2, 4, 2},
                                           {{1, 2, 2}, 0, 4, 4},
                                           {{2, 1, 0}, 0, 0},
                                           {{1, 2, 1}, 0, 0},
                                           {{1, 4, 2}, 0, 0},
                                           {{1, 4, 3}, 0, 0},
                                           {{1, 4, 3}, 2, 0},
                                           {{1, 4, 3}, 2, 8},
                                           {{1, 4, 3}, 2, 4},
                                           {{1, 4, 2}, 0, 4}}) {
    const Layout layout = coded_cases::layout(
        one.degrees, kGlobal,
        one.residuals > 0 ? std::optional(with_residuals("q4", one.senders, one.residuals))
        : one.senders > 0 ? std::optional(sums("q4", one.senders))
                          : std::nullopt,
        gather("q8", one.within));
    comm::run_local_ranks(mesh::Mesh(layout.degrees).world(), 60, [&](comm::World& world) {
      const std::unique_ptr<Optimizer> optimizer = run.optimizer();
      Session session(run.model(), {.mesh = mesh::Mesh(layout.degrees), .recipe = layout.recipe},
                      world, *optimizer);
      session.step({.update = {.lr = 0.01}, .load = [&](int mb) { return run.batch(0, mb); }});
      std::int64_t peak = 0;
      const plan::MemoryAccount account = plan::memory_account(session.plan(), world.rank());
      for (const plan::MemoryPoint& point : account.at_line) {
        std::int64_t sum = 0;
        for (int kind = 0; kind < plan::kMemoryKinds; ++kind)
          if (kind != static_cast<int>(plan::MemoryKind::kActivations)) sum += point[kind];
        peak = std::max(peak, sum);
      }
      EXPECT_EQ(session.units().memory().peak, peak)
          << layout.name() << " within " << one.within << " senders " << one.senders;
    });
  }
}

// ZeRO-3 on two hosts of two ranks: one gather in q8 and, for each micro-batch, one scatter in q4 cross between them.
TEST(CodedGathers, BytesBetweenTwoHostsAreThoseOfTheFormula) {
  constexpr int kGlobal = 8, kMicroBatches = 2, kHosts = 2, kRanks = 2;
  const Subject run = subject(kGlobal);
  const Layout layout = coded_cases::layout(
      {1, kHosts * kRanks, 3}, kGlobal, sums("q4", kHosts * kMicroBatches), gather("q8", kRanks));
  // Shards are padded to whole blocks.
  const std::int64_t whole = 4 * plan::shard_numel(kUnit, 4), block = plan::norm_chunk(kUnit);
  const std::int64_t q8 = whole / block * (2 + block), q4 = whole / block * (2 + block / 2);
  const std::int64_t expected = kUnits * (q8 + kMicroBatches * q4) * (kHosts - 1) / kHosts;
  std::atomic<std::int64_t> gathered = 0, scattered = 0, wire = 0, planned = 0;
  harness::run_ranks_on({kRanks, kRanks}, 60, [&](comm::World& inner) {
    harness::CountingWorld world(inner);
    const std::unique_ptr<Optimizer> optimizer = run.optimizer();
    Session session(run.model(), {.mesh = mesh::Mesh(layout.degrees), .recipe = layout.recipe},
                    world, *optimizer);
    world.take("dp_shard");
    world.take_bytes_sent("across");
    const auto step = [&](int number) {
      session.step({.step = number,
                    .loss_scale = run.loss_scale,
                    .update = {.lr = 0.01, .step = number + 1},
                    .load = [&](int mb) { return run.batch(number, mb); }});
    };
    const std::int64_t before = inner.network_bytes();
    step(0);
    if (world.rank() < kRanks) {
      wire += inner.network_bytes() - before;
      scattered += world.take_bytes_sent("across");
    }
    if (world.rank() != 0) return;
    planned = static_cast<std::int64_t>(simulate::crossing_bytes(session.plan(), 0, kRanks));
    // What all ranks gather crosses once: a host sends its half.
    for (const comm::CountingGroup::Entry& entry : world.take("dp_shard"))
      if (entry.type == DType::kU8) gathered += entry.count * (kHosts - 1) / kHosts;
  });
  EXPECT_EQ(gathered, kUnits * q8 / 2);
  EXPECT_EQ(scattered, kUnits * kMicroBatches * q4 / 2);
  EXPECT_EQ(gathered + scattered, expected);
  // The norm of 512 parameters travels as it is: a gather each way of a micro-batch, and a scatter.
  const std::int64_t small = kMicroBatches * 3 * 2 * kWidth * 4 / 2;
  EXPECT_EQ(planned, expected + small);
  EXPECT_GE(wire, planned);
  EXPECT_LE(wire, 1.075 * static_cast<double>(planned) + 64e3);  // frames, and sums of the norm
}

}  // namespace
}  // namespace trireme::exec::coded_gathers_test
