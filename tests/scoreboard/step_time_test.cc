// Steps of published runs: what their rows say as jobs, and how long these take.
#include <gtest/gtest.h>

#include "bench/scoreboard/fit.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/network.h"

namespace trireme::scoreboard::step_time_test {
namespace {

constexpr Dimensions kModel{
    .layers = 16, .hidden = 4096, .heads = 32, .vocab = 51200, .seq_len = 2048};

Candidate candidate(const PrintedLayout& layout, RecomputePolicy recompute = RecomputePolicy::kNone,
                    const Practice& practice = {}) {
  return {job_of(kModel, layout, recompute, true), practice};
}

TEST(Estimate, IsNearThePlansSimulation) {
  const Cluster cluster = find_cluster("dgx-a100");
  Practice waits{.overlaps_reduction = false, .overlaps_transfers = false};
  for (const auto& [layout, recompute, practice] :
       std::vector<std::tuple<PrintedLayout, RecomputePolicy, Practice>>{
           {{.tp = 8, .micro_batch = 4, .global_batch = 4}, RecomputePolicy::kNone, {}},
           {{.dp = 16, .zero = 3, .micro_batch = 2, .global_batch = 64},
            RecomputePolicy::kFull,
            {}},
           {{.dp = 16, .zero = 2, .micro_batch = 2, .global_batch = 64},
            RecomputePolicy::kNone,
            {}},
           {{.tp = 4,
           .dp = 8,
           .zero = 1,
           .sequence_parallel = true,
           .micro_batch = 2,
           .global_batch = 64},
            RecomputePolicy::kSelective,
            {}},
           {{.tp = 2, .pp = 4, .dp = 2, .micro_batch = 1, .global_batch = 32},
            RecomputePolicy::kNone,
            {}},
           {{.tp = 2,
           .pp = 4,
           .chunks = 2,
           .dp = 2,
           .zero = 1,
           .micro_batch = 1,
           .global_batch = 32},
            RecomputePolicy::kNone,
            waits}}) {
    const Candidate one = candidate(layout, recompute, practice);
    const double simulated = one.simulate(cluster).step_s;
    EXPECT_NEAR(one.step_seconds(cluster) / simulated, 1, 0.05)
        << layout.tp << layout.pp << layout.chunks << layout.zero;
  }
}

TEST(Estimate, WhatCostsMoreTakesLonger) {
  const Cluster cluster = find_cluster("dgx-a100");
  const PrintedLayout layout{.tp = 2, .pp = 4, .dp = 2, .micro_batch = 1, .global_batch = 32};
  const double plain = candidate(layout).step_seconds(cluster);
  EXPECT_GT(candidate(layout, RecomputePolicy::kSelective).step_seconds(cluster), plain);
  EXPECT_GT(candidate(layout, RecomputePolicy::kFull).step_seconds(cluster), 1.2 * plain);
  EXPECT_GT(candidate(layout, RecomputePolicy::kNone, {.attention = AttentionKernel::kUnfused})
                .step_seconds(cluster),
            plain);
  EXPECT_GT(
      candidate(layout, RecomputePolicy::kNone, {.blocks_launches = true}).step_seconds(cluster),
      plain);
  EXPECT_GT(candidate(layout, RecomputePolicy::kNone, {.overlaps_transfers = false})
                .step_seconds(cluster),
            plain);
  EXPECT_LT(candidate(layout, RecomputePolicy::kNone, {.tensor = TensorOverlap::kEverything})
                .step_seconds(cluster),
            plain);
  EXPECT_LT(candidate(layout, RecomputePolicy::kFull, {.stops_early = true}).step_seconds(cluster),
            candidate(layout, RecomputePolicy::kFull).step_seconds(cluster));
  EXPECT_EQ(candidate(layout, RecomputePolicy::kNone, {.stops_early = true}).step_seconds(cluster),
            plain);
  Cluster slow = cluster;
  slow.tiers.back().rate /= 20;
  EXPECT_GT(candidate(layout).step_seconds(slow), plain);
}

// What sequence-parallel ranks gather of gradients nobody hides; the input that weights' need once more, and sums, are.
TEST(Estimate, BackwardHidesSumsButNotGatheredGradients) {
  const Cluster cluster = find_cluster("dgx-a100");
  const auto backward = [&](bool sequence, TensorOverlap tensor) {
    const PrintedLayout layout{
        .tp = 8, .sequence_parallel = sequence, .micro_batch = 4, .global_batch = 4};
    return candidate(layout, RecomputePolicy::kNone, {.tensor = tensor})
        .block_seconds(cluster)
        .second;
  };
  using enum TensorOverlap;
  const Network network(cluster, mesh::Mesh({.tp = 8}));
  const double bytes = 2.0 * 4 * 2048 * 4096;
  const double gather = network.seconds(plan::Exchange::kAllGather, mesh::Axis::kTp, bytes);
  EXPECT_NEAR(backward(true, kBackward) - backward(true, kEverything), 2 * gather, 1e-9);
  EXPECT_NEAR(backward(false, kBackward), backward(false, kEverything), 1e-9);
  EXPECT_GT(backward(false, kNothing), backward(false, kBackward) + gather);
}

// Korthikanti et al. 2022, table 5, and MosaicML's llm-foundry: within the bars of docs/planner.md.
TEST(StepTimes, OfPublishedRuns) {
  const std::vector<scoreboard::Run> runs = korthikanti_runs(
      Csv::parse("model,heads,hidden,layers,seq,vocab,tp,pp,interleave_v,dp,gpus,global_batch,"
                 "microbatch,mode,iter_time_s\n"
                 "22B,64,6144,48,2048,51200,8,1,1,1,8,4,4,full_recompute_no_SP,1.42\n"
                 "175B,96,12288,96,2048,51200,8,8,3,1,64,64,1,selective_recompute_plus_SP,13.75\n",
                 "rows"));
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0].candidates[0].job().recompute.policy, RecomputePolicy::kFull);
  EXPECT_FALSE(runs[0].candidates[0].job().parallel.sequence_parallel);
  EXPECT_EQ(runs[1].candidates[0].job().recompute.parts, "attention");
  EXPECT_EQ(runs[1].candidates[0].job().parallel.virtual_stages, 3);
  const std::vector<Cluster> clusters = clusters_of(runs);
  for (const scoreboard::Run& run : runs)
    EXPECT_NEAR(simulated(run, clusters) / run.seconds, 1, 0.08) << run.row;
}

// As on a GPU that nothing is known of: forecast too fast, within a band that says so.
TEST(StepTimes, WithoutMeasurementsHaveTheBandOfGuesses) {
  const harness::ScratchDirectory scratch;
  scratch.write("korthikanti_table3_5_e2e.csv",
                "model,heads,hidden,layers,seq,vocab,tp,pp,interleave_v,dp,gpus,global_batch,"
                "microbatch,mode,iter_time_s\n"
                "175B,96,12288,96,2048,51200,8,8,3,1,64,64,1,selective_recompute_plus_SP,13.75\n");
  const CasesByTable cases = unmeasured_cases(scratch.path().string());
  ASSERT_EQ(cases.size(), 1);
  const Case& guess = cases.begin()->second.at(0);
  EXPECT_NEAR(*guess.low / guess.forecast, 0.97, 1e-9);
  EXPECT_NEAR(*guess.high / guess.forecast, 1.42, 1e-9);
  const std::vector<scoreboard::Run> runs =
      fitted_runs(scratch.path().string()).at("korthikanti_table3_5_e2e");
  const Case known = step_time_case(runs[0], clusters_of(runs), simulated);
  EXPECT_NE(guess.forecast, known.forecast);
  EXPECT_NEAR(*known.high / known.forecast, 1.08, 1e-9);
}

TEST(StepTimes, OfBloomTakeTheRowAsItIs) {
  const std::vector<scoreboard::Run> runs =
      bloom_runs(Csv::parse("section,hidden,layers,heads,seq,vocab,precision,zero_stage,gpus,dp,tp,"
                            "pp,mbs,gbs,sec_per_iter,oom,complete\n"
                            "a,13824,78,128,2048,250k,fp16,1,384,8,4,12,2,2048,147.41,0,1\n"
                            "a,13824,78,64,2048,250k,fp16,1,384,8,4,12,2,2048,103.51,0,1\n"
                            "b,12288,100,64,2048,250k,fp16,1,384,16,4,6,2,2048,,1,1\n"
                            "b,13824,,,2048,250k,fp16,1,320,4,8,10,1,2048,160.29,0,0\n",
                            "rows"));
  ASSERT_EQ(runs.size(), 4);
  const config::Job& job = runs[0].candidates[0].job();
  EXPECT_EQ(job.model.vocab, 250880);
  EXPECT_EQ(job.parallel.stages, "8,7,7,7,7,7,6,6,6,6,6,7");
  EXPECT_EQ(runs[2].unscored, "out of memory");
  EXPECT_EQ(runs[3].unscored, "the row does not give all of the layout");
  // Heads 108 wide cost a third; these 216 wide do not.
  const std::vector<Cluster> clusters = clusters_of({runs[0]});
  EXPECT_GT(simulated(runs[0], clusters), 1.3 * simulated(runs[1], clusters));
}

TEST(Fit, FindsAConstantAgain) {
  std::vector<Cluster> clusters = {find_cluster("mosaic-h100")};
  std::vector<scoreboard::Run> runs;
  for (const double micro_batch : {1.0, 4.0}) {
    scoreboard::Run run{.row = "made", .cluster = "mosaic-h100", .gpus = 8};
    run.candidates.push_back(
        candidate({.dp = 8, .zero = 2, .micro_batch = micro_batch, .global_batch = 32}));
    run.seconds = estimated(run, clusters);
    runs.push_back(std::move(run));
  }
  const double known = clusters[0].gpu.efficiency.gemm;
  clusters[0].gpu.efficiency.gemm = 0.5 * known;
  const std::vector<Constant> one = {
      {.name = "gemm", .in = [](Cluster& cluster) { return &cluster.gpu.efficiency.gemm; }}};
  EXPECT_GT(misfit({{"made", runs}}, clusters), 1);
  fit({{"made", runs}}, one, clusters, 200);
  EXPECT_NEAR(clusters[0].gpu.efficiency.gemm, known, 0.02 * known);
}

}  // namespace
}  // namespace trireme::scoreboard::step_time_test
