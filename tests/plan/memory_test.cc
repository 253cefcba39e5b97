#include "trireme/plan/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/plan/cases.h"
#include "trireme/plan/compile/forward_only.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan::memory_test {
namespace {

constexpr auto kGradients = static_cast<std::size_t>(MemoryKind::kGradients);
constexpr auto kUnitBuffers = static_cast<std::size_t>(MemoryKind::kUnitBuffers);
constexpr auto kActivations = static_cast<std::size_t>(MemoryKind::kActivations);

// Unit sizes of the chain divide by 4 shards and their chunks, but for norm's 128.
Program even_chain() {
  Program program = harness::chain_example();
  for (Unit& unit : program.units) unit.numel = 1 << 16;
  return program;
}

std::int64_t numel(const Program& program) {
  std::int64_t sum = 0;
  for (const Unit& unit : program.units) sum += unit.numel;
  return sum;
}

// anchors.md: fp32 Adam 16; 8 + 8/n; 4 + 12/n; 16/n. With 16-bit compute and fp32 gradients and master
// weights 18; 6 + 12/n; 2 + 16/n; 18/n: so in fp16. In bf16 a parameter is half its master.
TEST(Memory, ModelStatesEqualTheZeroFormulas) {
  const Program program = even_chain();
  const double count = static_cast<double>(numel(program));
  for (int n : {1, 2, 4, 8}) {
    const double fp32[] = {16, 8 + 8.0 / n, 4 + 12.0 / n, 16.0 / n};
    const double fp16[] = {18, 6 + 12.0 / n, 2 + 16.0 / n, 18.0 / n};
    const double bf16[] = {16, 6 + 10.0 / n, 2 + 14.0 / n, 16.0 / n};
    for (int zero : {0, 1, 2, 3})
      for (const auto& [compute, each] :
           {std::pair(DType::kF32, fp32), {DType::kF16, fp16}, {DType::kBF16, bf16}}) {
        const PlanSet plan =
            compile(program, mesh::Mesh({.dp_shard = n}), {.zero = zero, .compute = compute});
        EXPECT_EQ(static_cast<double>(memory_account(plan, 0).model_states), count * each[zero])
            << "zero " << zero << " n " << n << ' ' << name(compute);
      }
  }
}

// Bytes a parameter of pure bf16 (2 + 2 states of 2, gradients of 4 or 2), of 8-bit states behind fp32 masters (4 together +
// 2 codes, a scale of 4 for every norm chunk of 16 here), of masters that wait on a disk, and of an fp32 unit among
// bf16 ones.
TEST(Memory, ModelStatesOfNarrowTypes) {
  Program program = even_chain();
  const double count = static_cast<double>(numel(program));
  const auto states = [&](const Recipe& recipe) {
    return static_cast<double>(
        memory_account(compile(program, mesh::Mesh(), recipe), 0).model_states);
  };
  EXPECT_EQ(states({.compute = DType::kBF16, .master = DType::kBF16}), count * 10);
  EXPECT_EQ(states({.compute = DType::kBF16, .master = DType::kBF16, .grads = DType::kBF16}),
            count * 8);
  EXPECT_EQ(states({.compute = DType::kBF16, .int8_states = true}),
            count * (4 + 2 + 2 * 4.0 / 16 + 4));
  EXPECT_EQ(states({.compute = DType::kBF16, .offload = {.optimizer = Tier::kNvme}}), count * 18);
  EXPECT_EQ(state_block(1 << 16), 16);
  EXPECT_EQ(state_block(1 << 20), 256);
  EXPECT_EQ(state_block(1 << 30), 256);
  program.units[0].type = DType::kF32;  // one copy serves both
  EXPECT_EQ(states({.compute = DType::kBF16}), count * 16);
}

// ZeRO paper (Rajbhandari 2020), 7.5B parameters on 64 ranks: 120, 31.4, 16.6, 1.9 GB, in its accounting
// of 2-byte gradients.
TEST(Memory, ReproducesTheZeroPaper) {
  Program program = harness::chain_example(1);
  program.units = {{.name = "all", .numel = 7'500'000'000}};
  for (Node& node : program.nodes) node.units = {0};
  const double expected[] = {120, 31.4, 16.6, 1.9};
  for (int zero : {0, 1, 2, 3}) {
    const PlanSet plan = compile(program, mesh::Mesh({.dp_shard = 64}),
                                 {.zero = zero, .compute = DType::kF16, .grads = DType::kBF16});
    EXPECT_NEAR(static_cast<double>(memory_account(plan, 0).model_states) / 1e9, expected[zero],
                0.051)
        << zero;
  }
}

// Of one unit: its whole gradient on the way out, its part on the way back, both in the type of precision.reduce.
TEST(Memory, CopiesOnTheirWayAreCommBuffers) {
  Program program = harness::chain_example(1);
  program.units = {{.name = "all", .numel = 1 << 20}};
  for (Node& node : program.nodes) node.units = {0};
  const auto copies = [&](std::optional<DType> reduce) {
    const PlanSet plan =
        compile(program, mesh::Mesh({.dp_shard = 4}), {.zero = 1, .reduce = reduce});
    return memory_account(plan, 0).peak[static_cast<std::size_t>(MemoryKind::kCommBuffers)];
  };
  EXPECT_EQ(copies({}), 0);
  EXPECT_EQ(copies(DType::kBF16), 2 * ((1 << 20) + (1 << 18)));
}

// Every case ends with what it began with (the account checks it), and kinds add up.
TEST(Memory, EveryStepGivesBackWhatItTook) {
  for_each_case({1, 2, 4}, {1, 2}, {1, 2, 3, 8}, {0, 1, 2}, [](Case one) {
    for (DType compute : {DType::kF32, DType::kBF16})
      for (bool canonical : {true, false}) {
        one.recipe.compute = compute;
        one.recipe.reduce =
            canonical ? std::nullopt : std::optional(DType::kBF16);  // copies on their way
        one.recipe.canonical = canonical;
        one.recipe.group = canonical && one.recipe.micro_batches == 8 ? 4 : 1;
        SCOPED_TRACE(one.name());
        const PlanSet plan = compile(one);
        for (int stage = 0; stage < static_cast<int>(plan.lists.size()); ++stage) {
          const int rank = stage * plan.mesh.world() / static_cast<int>(plan.lists.size());
          const MemoryAccount account = memory_account(plan, rank);
          ASSERT_EQ(account.at_line.size(), plan.list(rank).size());
          std::int64_t largest = 0;
          for (const MemoryPoint& point : account.at_line) {
            std::int64_t sum = 0;
            for (std::int64_t bytes : point) {
              ASSERT_GE(bytes, 0);
              sum += bytes;
            }
            largest = std::max(largest, sum);
          }
          ASSERT_EQ(largest, account.peak_total);
        }
      }
  });
}

// After folding micro-batch k the binary counter holds popcount(k + 1) buffers; while it folds, one more.
TEST(Memory, CounterLevelsFollowTheBinaryCounter) {
  Program program = even_chain();
  const std::int64_t unit = 4 << 16;
  const int micro_batches = 8;
  for (int zero : {0, 3}) {
    const PlanSet plan = compile(program, mesh::Mesh({.dp_shard = 2}),
                                 {.zero = zero, .micro_batches = micro_batches});
    const MemoryAccount account = memory_account(plan, 0);
    const std::int64_t level = zero == 0 ? unit : unit / 2;
    // At the first forward of micro-batch mb all units have folded mb gradients.
    for (std::size_t i = 0; i < plan.lists[0].size(); ++i) {
      const Instr& line = plan.lists[0][i];
      if (line.verb != Verb::kForward || line.node != 2) continue;
      std::int64_t levels = 0;
      for (int bits = line.mb; bits > 0; bits &= bits - 1) ++levels;
      // ZeRO-3's last reductions may still be on their way: their parts have come in already.
      const std::int64_t held = account.at_line[i][kGradients];
      if (zero == 0) {
        EXPECT_EQ(held, levels * 5 * level) << "mb " << line.mb;
      } else {
        EXPECT_GE(held, levels * 5 * level) << "mb " << line.mb;
      }
    }
    const PlanSet fast =
        compile(program, mesh::Mesh({.dp_shard = 2}),
                {.zero = zero, .micro_batches = micro_batches, .canonical = false});
    EXPECT_LT(memory_account(fast, 0).peak[kGradients], account.peak[kGradients]);
  }
}

TEST(Memory, Zero3HoldsPrefetchPlusOneGatheredUnits) {
  const Program program = even_chain();
  for (int prefetch : {0, 1, 2}) {
    const PlanSet plan = compile(forward_only(program), mesh::Mesh({.dp_shard = 2}),
                                 {.zero = 3, .prefetch = prefetch});
    // The last node uses two units.
    const std::int64_t nodes = prefetch + 1;
    EXPECT_EQ(memory_account(plan, 0).peak[kUnitBuffers], (nodes + 1) * (4 << 16)) << prefetch;
  }
}

// anchors.md: full recomputation keeps the inputs of nodes only; GPipe holds every micro-batch.
TEST(Memory, ActivationsFollowTheSchedule) {
  const Program program = harness::chain_example(4);
  const auto peak = [&](const Recipe& recipe, int segments = 0) {
    const Program laid_out = segments > 0 ? recompute_whole(program, segments) : program;
    return memory_account(compile(laid_out, mesh::Mesh(), recipe), 0).peak[kActivations];
  };
  const std::int64_t saved = program.nodes[0].saved_bytes;
  const std::int64_t value = program.values[2].bytes;
  const std::int64_t inputs = 2 * 512;
  // In the backward of the loss: five activations and one gradient, and what all six nodes kept.
  EXPECT_EQ(peak({.micro_batches = 3}), inputs + 6 * saved + 6 * value);
  // With recompute, what the loss kept.
  EXPECT_EQ(peak({.micro_batches = 3}, 1), inputs + saved + 6 * value);
  // The first of two segments runs again from the tokens: three nodes keep, two values are written again, and two are
  // gradients.
  EXPECT_EQ(peak({.micro_batches = 3}, 3), inputs / 2 + 3 * saved + 4 * value);
  const std::int64_t one = peak({.micro_batches = 1, .schedule = schedules::Schedule::kGpipe});
  const std::int64_t four = peak({.micro_batches = 4, .schedule = schedules::Schedule::kGpipe});
  EXPECT_EQ(four - one, 3 * (inputs + 6 * saved + 5 * value));
}

// What is sent is kept until a later send waits for it: two micro-batches of a value, whatever the schedule.
TEST(MemoryAccount, BoundsWhatWaitsToBeSent) {
  const auto plan = [](int micro_batches, int unsent) {
    Program program = harness::tied_example(2);
    for (Node& node : program.nodes) node.saved_bytes = 0;
    for (Node& node : program.nodes) node.no_grad = true;
    for (Unit& unit : program.units) unit.trainable = false;
    return compile(std::move(program), mesh::Mesh({.pp = 2}),
                   {.micro_batches = micro_batches,
                    .schedule = schedules::Schedule::kGpipe,
                    .unsent = unsent});
  };
  const auto peak = [&](int micro_batches, int unsent) {
    return memory_account(plan(micro_batches, unsent), 0)
        .peak[static_cast<std::size_t>(MemoryKind::kActivations)];
  };
  EXPECT_EQ(peak(16, 2), peak(64, 2));
  EXPECT_EQ(peak(16, 4) - peak(16, 2), 2 * 8192);
}

}  // namespace
}  // namespace trireme::plan::memory_test
