#include "bench/scoreboard/memory_runs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/plan/memory.h"

namespace trireme::scoreboard::memory_runs_test {
namespace {

// Rows of bloom_topologies_a100 (BigScience, tr11-176B-ml/chronicles-prequel.md), two sections.
constexpr const char* kBloom =
    "section,date,size_B,hidden,layers,heads,seq,vocab,precision,zero_stage,gpus,dp,tp,pp,mbs,gbs,"
    "mem,sec_per_iter,oom,complete\n"
    "a,02-20,200B,14400,,,2048,250k,fp16,1,384,12,8,4,1,2040,47,189.06,0,0\n"
    "b,02-21,181B,14336,72,64,2048,250k,fp16,1,384,4,8,12,1,2048,29,143.31,0,1\n"
    "b,02-21,181B,14336,72,64,2048,250k,fp16,1,384,4,8,12,4,2048,49,123.69,0,1\n"
    "b,02-21,181B,14336,72,64,2048,250k,fp16,0,384,4,8,12,2,2048,72,137.34,0,1\n"
    "c,02-25,181B,14336,72,64,2048,250k,fp16,1,384,48,8,1,1,2048,,,1,1\n"
    "c,02-25,181B,14336,72,64,2048,250k,fp16,1,384,16,4,6,2,2048,57,111.71,0,1\n"
    "d,02-28,176B,14336,70,64,2048,250k,\"bf16 + fp32 grad accumulation, embedding counted as a "
    "layer\",1,384,8,4,12,2,2048,59,102.03,0,1\n";

std::vector<MemoryRun> bloom() { return bloom_memory_runs(Csv::parse(kBloom, "bloom.csv")); }

TEST(MemoryRuns, AreReadFromRows) {
  const std::vector<MemoryRun> runs = bloom();
  ASSERT_EQ(runs.size(), 7u);
  EXPECT_FALSE(runs[0].unscored.empty());
  EXPECT_TRUE(runs[0].memory.empty());
  EXPECT_EQ(runs[1].view, View::kDevice);
  EXPECT_EQ(runs[1].measured, 29);
  EXPECT_FALSE(runs[4].ran);
  EXPECT_FALSE(runs[4].memory.empty()) << "what did not run has a plan, too";
}

// What is scored is what `trireme plan` counts.
TEST(MemoryRuns, HaveTheMemoryOfTheirPlan) {
  const config::Job job = job_of(
      {.layers = 8, .hidden = 1024, .heads = 16, .vocab = 50304, .seq_len = 1024},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 1, .global_batch = 16}, RecomputePolicy::kFull, true);
  const plan::PlanSet plan = Candidate(job, {}).plan();
  double most = 0;
  for (std::size_t rank = 0; rank < plan.list_of_rank.size(); ++rank) {
    const auto account = plan::memory_account(plan, static_cast<int>(rank));
    most = std::max(most, static_cast<double>(account.peak_of_tensors()));
  }
  double scored = 0;
  for (const DeviceMemory& memory : memory_of(job, true))
    scored = std::max(scored, memory.allocated());
  EXPECT_DOUBLE_EQ(scored, most);
}

TEST(MemoryCases, HaveBands) {
  const std::vector<Case> cases = memory_cases(bloom());
  ASSERT_EQ(cases.size(), 5u);
  for (const Case& one : cases) {
    EXPECT_LT(*one.low, one.forecast);
    EXPECT_GT(*one.high, one.forecast);
    EXPECT_TRUE(one.null.has_value());
  }
}

// What Trireme takes for a row's job, which is less than the row's system took.
void expect_forecasts(const std::vector<Case>& cases, const std::vector<double>& forecasts) {
  ASSERT_EQ(cases.size(), forecasts.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_NEAR(cases[i].forecast / forecasts[i], 1, 0.005) << cases[i].row;
    EXPECT_LT(cases[i].forecast, cases[i].measured) << cases[i].row;
  }
}

TEST(MemoryCases, AreThePlansOfTheRows) {
  expect_forecasts(memory_cases(bloom()), {22.72, 38.78, 44.73, 51.25, 41.60});
}

TEST(MemoryCases, MoreInAMicroBatchTakesMore) {
  const std::vector<Case> cases = memory_cases(bloom());
  EXPECT_LT(cases[0].forecast, cases[1].forecast);
}

TEST(FitsCases, TellRunsThatRanFromThoseThatFailed) {
  for (const Case& one : fits_cases(bloom())) {
    if (!one.unscored.empty()) continue;
    EXPECT_EQ(one.measured, one.quantity == kRanQuantity ? 1 : 0);
    EXPECT_EQ(one.forecast, one.measured) << one.row;
  }
}

// Rows that measured what the model says with these constants.
std::vector<MemoryRun> measured_with(const MemoryConstants& truth) {
  std::vector<MemoryRun> runs = bloom();
  for (MemoryRun& run : runs)
    if (run.view == View::kDevice)
      run.measured = fullest(run.memory, truth).needed() / (1000.0 * (1 << 20));
  return runs;
}

TEST(FitMemory, FindsTheConstantsThatMadeTheMeasurements) {
  const MemoryConstants truth{.holes = 0.31, .communicator = 0.4e9};
  const MemoryConstants found = fit_memory(measured_with(truth));
  EXPECT_NEAR(found.holes, truth.holes, 0.011);
  EXPECT_NEAR(found.communicator, truth.communicator, 0.02e9);
}

TEST(FitMemory, LeavesTheGroupOut) {
  std::vector<MemoryRun> runs = measured_with({.holes = 0.31, .communicator = 0.4e9});
  const auto forecast = [&] {
    const std::vector<Case> cases = memory_left_out(runs);
    return std::ranges::find(cases, std::string("d"), &Case::group)->forecast;
  };
  const double before = forecast();
  runs[6].measured = 70;  // what the group itself measured has no say
  EXPECT_DOUBLE_EQ(forecast(), before);
  for (const int other : {1, 2, 3, 5}) runs[other].measured *= 0.95;
  EXPECT_NE(forecast(), before);
}

// Rows of torchtitan_llama: benchmarks/llama3_h100_202412_torchtitan.md and docs/performance.md.
constexpr const char* kTitan =
    "table,model,gpus,technique,parallelism,seq,local_batch,activation_ckpt,precision,compile,"
    "tokens_s_gpu,"
    "memory_GiB,hardware,source\n"
    "1,Llama3.1-8B,8,FSDP,FSDP 8,8192,2,selective,bf16,0,5762,82.4,8xH100 96GB,2024\n"
    "2,Llama3.1-8B,8,FSDP + CP + compile + Float8,\"FSDP 2, CP "
    "4\",131072,1,full,bf16,1,1071,84.0,8xH100 "
    "96GB,2024\n"
    "4,Llama3.1-70B,256,2D,\"FSDP 32, TP 8\",8192,16,full,bf16,1,829,71.9,8xH100 96GB,2024\n"
    "6,Llama3.1-405B,512,4D 1F1B,\"FSDP 4, CP 2, TP 8, PP 8\",65536,8,full,bf16,1,47,75.9,8xH100 "
    "96GB,2024\n"
    "A,Llama2-70B,64,FSDP2 eager,FSDP 64,4096,1,selective op,bf16,0,355,,64 A100-80GB,2024\n"
    "A,Llama2-70B,64,FSDP2 eager,FSDP 64,4096,2,selective layer,bf16,0,OOM,OOM,64 A100-80GB,2024\n"
    "A,Mamba,64,FSDP2 eager,FSDP 64,4096,2,selective layer,bf16,0,100,12,64 A100-80GB,2024\n";

TEST(MemoryRuns, OfTorchtitan) {
  const std::vector<MemoryRun> runs = torchtitan_memory_runs(Csv::parse(kTitan, "titan.csv"));
  ASSERT_EQ(runs.size(), 7u);
  EXPECT_FALSE(runs[6].unscored.empty());
  expect_forecasts(memory_cases(runs), {65.18, 31.65, 36.45, 35.09});
}

// ZeRO's table 2 has 1.3B without and 6.2B with sharded states on 64 V100 of 32 GB.
TEST(LargestModel, IsALittleLargerThanZeros) {
  const auto largest = [](int zero) {
    return largest_model({.dp = 64, .zero = zero, .micro_batch = 4, .global_batch = 256}, 1024,
                         device_bytes(32));
  };
  EXPECT_NEAR(largest(0) / 1e9, 1.54, 0.02);
  EXPECT_NEAR(largest(1) / 1e9, 7.05, 0.02);
}

TEST(LargestModel, IsNoneOnADeviceWithoutRoomForTheContext) {
  EXPECT_EQ(largest_model({}, 1024, 1e9), 0);
}

}  // namespace
}  // namespace trireme::scoreboard::memory_runs_test
