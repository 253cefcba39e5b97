#include "bench/scoreboard/stage_memory.h"

#include <gtest/gtest.h>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/layer_memory.h"

namespace trireme::scoreboard::stage_memory_test {
namespace {

constexpr double kGiB = 1 << 30;

// 22B of Korthikanti et al. 2022 and Llama 3.1 8B.
const Decoder kGpt{.layers = 48, .hidden = 6144, .heads = 64, .vocab = 51200};
const Decoder kLlama{32, 4096, 32, 8, 14336, 128256, true, false};

TEST(Decoder, CountsLlamasParameters) {
  EXPECT_NEAR(kLlama.parameters() / 1e9, 8.03, 0.001);  // Dubey et al. 2024
}

// Korthikanti et al. 2022, table 2.
TEST(LayerBytes, AreTheClosedForms) {
  const GptShape gpt{.layers = 48, .hidden = 6144, .heads = 64, .sequence = 2048};
  const MemoryPractice practice{.flash = false, .dropout = true};
  for (const int tp : {1, 2, 8}) {
    for (const bool sp : {false, true}) {
      const Split split{.tp = tp, .sequence_parallel = sp, .sequence = 2048, .micro_batch = 4};
      const double bytes = 4 * 2048 * layer_bytes(kGpt, split, practice).kept;
      EXPECT_DOUBLE_EQ(bytes, block_activations(gpt, 4, tp, sp, Kept::kAll));
    }
  }
}

TEST(DeviceMemory, HoldsZerosModelStates) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int dp : {1, 4, 64}) {
      const DeviceMemory memory =
          device_memory(kGpt, {.dp = dp, .sequence = 2048, .micro_batch = 1}, {.zero = zero});
      const double states =
          memory.term("weights") + memory.term("gradients") + memory.term("optimizer states");
      EXPECT_NEAR(states / zero_model_states(kGpt.parameters(), zero, dp), 1, 1e-12);
    }
  }
}

// Rows of bloom_topologies_a100: BigScience, tr11-176B-ml/chronicles-prequel.md; nvidia-smi's GB.
MemoryPractice deepspeed(bool bf16) {
  MemoryPractice practice{.zero = 1,
                          .reduce_bucket = bf16 ? 0.0 : 1e9,
                          .keeps = Keeps::kInputs,
                          .flash = false,
                          .dropout = true,
                          .embedding_norm = true,
                          .loss = 12,
                          .loss_live = 10};
  if (bf16) {
    practice.gradient_sums = 4;
    practice.gather_bucket = 1e10;
  } else {
    practice.step_own = 6;
  }
  return practice;
}

struct BloomRow {
  double hidden, layers;
  int dp, tp, pp;
  double mbs;
  bool bf16;
  double measured;
};

TEST(DeviceMemory, IsWhatNvidiaSmiShowedOfBloom) {
  const BloomRow rows[] = {
      {14336, 72, 4, 8, 12, 1, false, 29}, {14336, 72, 4, 8, 12, 4, false, 49},
      {14336, 72, 8, 2, 24, 1, false, 44}, {14336, 72, 16, 2, 12, 2, false, 63},
      {13824, 78, 8, 4, 12, 2, false, 48}, {14336, 70, 8, 4, 12, 2, true, 59},
      {14336, 70, 4, 8, 12, 2, true, 40},  {13312, 82, 8, 4, 12, 4, true, 74},
  };
  for (const BloomRow& row : rows) {
    const Decoder model{.layers = row.layers, .hidden = row.hidden, .heads = 64, .vocab = 250880};
    const Split split{.tp = row.tp,
                      .pp = row.pp,
                      .dp = row.dp,
                      .embedding_is_layer = row.bf16,
                      .sequence = 2048,
                      .micro_batch = row.mbs,
                      .micro_batches = 2048 / row.dp / static_cast<int>(row.mbs)};
    const double smi =
        device_memory(model, split, deepspeed(row.bf16)).on_device() / (1000.0 * (1 << 20));
    EXPECT_NEAR(smi / row.measured, 1, 0.06) << row.hidden << " tp" << row.tp << " pp" << row.pp;
  }
}

// Rows of torchtitan_llama: benchmarks/llama3_h100_202412_torchtitan.md; the allocator's peak in GiB.
TEST(DeviceMemory, IsTheAllocatorsPeakOfTorchtitan) {
  const MemoryPractice selective{.zero = 3, .keeps = Keeps::kOperators, .expandable = true};
  Split split{.dp = 8, .sequence = 8192, .micro_batch = 2};
  EXPECT_NEAR(device_memory(kLlama, split, selective).reserved() / kGiB / 76.8, 1, 0.05);
  split.dp = 128;
  EXPECT_NEAR(device_memory(kLlama, split, selective).reserved() / kGiB / 61.8, 1, 0.05);
  const MemoryPractice full{.zero = 3, .keeps = Keeps::kInputs, .expandable = true};
  split = {.dp = 8, .sequence = 32768, .micro_batch = 1};
  EXPECT_NEAR(device_memory(kLlama, split, full).reserved() / kGiB / 83.9, 1, 0.05);
}

// Llama 2 70B on 64 A100 of 80 GB, sequence 4096: one sequence fits with selective checkpoints, two do not.
TEST(DeviceMemory, SaysWhatDoesNotFit) {
  const Decoder llama{80, 8192, 64, 8, 28672, 32000, true, false};
  const MemoryPractice practice{
      .zero = 3, .keeps = Keeps::kOperators, .fused = false, .expandable = true};
  const double capacity = 81251.0 * (1 << 20);
  Split split{.dp = 64, .sequence = 4096, .micro_batch = 1};
  EXPECT_LT(device_memory(llama, split, practice).needed(), capacity);
  split.micro_batch = 2;
  EXPECT_GT(device_memory(llama, split, practice).needed(), capacity);
}

double needed(const Split& split, const MemoryPractice& practice) {
  return device_memory(kGpt, split, practice).needed();
}

TEST(DeviceMemory, MoreZeroNeverNeedsMore) {
  for (const int dp : {2, 8, 64}) {
    for (int zero = 0; zero < 3; ++zero) {
      const Split split{.dp = dp, .sequence = 2048, .micro_batch = 2};
      EXPECT_LE(needed(split, {.zero = zero + 1, .keeps = Keeps::kInputs}),
                needed(split, {.zero = zero, .keeps = Keeps::kInputs}));
    }
  }
}

TEST(DeviceMemory, RecomputationNeverNeedsMore) {
  for (const bool flash : {false, true}) {
    for (const int tp : {1, 8}) {
      const Split split{.tp = tp, .sequence_parallel = tp > 1, .sequence = 4096, .micro_batch = 2};
      double before = needed(split, {.keeps = Keeps::kAll, .flash = flash});
      for (const Keeps keeps : {Keeps::kAlternate, Keeps::kInputs}) {
        const double now = needed(split, {.keeps = keeps, .flash = flash});
        EXPECT_LT(now, before);
        before = now;
      }
      EXPECT_GT(needed(split, {.keeps = Keeps::kOperators, .flash = flash}), before);
    }
  }
}

TEST(DeviceMemory, GrowsWithWhatIsComputedAtOnce) {
  double before = 0;
  for (const double sequences : {1, 2, 4, 8}) {
    const double now = needed({.dp = 8, .sequence = 2048, .micro_batch = sequences}, {.zero = 1});
    EXPECT_GT(now, before);
    before = now;
  }
}

TEST(DeviceMemory, MoreTensorParallelRanksHoldLess) {
  double before = 1e18;
  for (const int tp : {1, 2, 4, 8}) {
    const double now =
        needed({.tp = tp, .sequence_parallel = true, .sequence = 2048, .micro_batch = 4}, {});
    EXPECT_LT(now, before);
    before = now;
  }
}

// Whatever the number of stages the first holds all layers' worth (Korthikanti et al. 2022, section 4.2.3).
TEST(DeviceMemory, FirstStageKeepsAllLayersWorth) {
  const MemoryPractice practice{.keeps = Keeps::kInputs};
  const auto kept = [&](int pp) {
    const Split split{.pp = pp, .sequence = 2048, .micro_batch = 1, .micro_batches = 64};
    return stage_memory(kGpt, split, practice, 0).term("kept activations");
  };
  EXPECT_DOUBLE_EQ(kept(1), kept(2));
  EXPECT_DOUBLE_EQ(kept(1), kept(8));
  const Split interleaved{
      .pp = 8, .chunks = 2, .sequence = 2048, .micro_batch = 1, .micro_batches = 64};
  EXPECT_NEAR(stage_memory(kGpt, interleaved, practice, 0).term("kept activations") / kept(1),
              first_rank_share(8, 2), 1e-12);
}

TEST(DeviceMemory, ViewsContainOneAnother) {
  const Split split{
      .tp = 2, .pp = 4, .dp = 4, .sequence = 2048, .micro_batch = 2, .micro_batches = 16};
  for (const bool expandable : {false, true}) {
    const DeviceMemory memory =
        device_memory(kGpt, split, {.zero = 1, .step_own = 6, .expandable = expandable});
    EXPECT_LE(memory.allocated(), memory.reserved());
    EXPECT_LT(memory.reserved(), memory.on_device());
    EXPECT_LE(memory.needed(), memory.on_device());
  }
}

TEST(Communicators, AreThoseOfTheLayout) {
  EXPECT_EQ(communicators({}, 0, true), 0);
  EXPECT_EQ(communicators({.dp = 8}, 0, true), 2);  // all ranks, and the same as dp
  EXPECT_EQ(communicators({.tp = 8, .dp = 2}, 0, true), 3);
  EXPECT_EQ(communicators({.pp = 4}, 0, true), 3);  // all, the next stage, the tied table
  EXPECT_EQ(communicators({.pp = 4}, 1, true), 3);  // all, both neighbours
  EXPECT_EQ(communicators({.pp = 4}, 3, false), 2);
}

}  // namespace
}  // namespace trireme::scoreboard::stage_memory_test
