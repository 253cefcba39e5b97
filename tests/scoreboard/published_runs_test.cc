// Runs of torchtitan, IBM, Megatron-LM's figures and reports, as their rows tell them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/scoreboard/fit.h"
#include "bench/scoreboard/money.h"
#include "bench/scoreboard/registry.h"
#include "trireme/planner/hardware/cluster_file.h"

namespace trireme::scoreboard::published_runs_test {
namespace {

using testing::HasSubstr;

constexpr char kTitanColumns[] =
    "table,model,gpus,technique,parallelism,seq,local_batch,global_batch,activation_ckpt,precision,"
    "compile,tokens_s_gpu,memory_GiB,mfu_pct,hardware,source,status\n";

std::vector<scoreboard::Run> titan(const std::string& rows) {
  return torchtitan_runs(Csv::parse(kTitanColumns + rows, "rows"));
}

double off(const scoreboard::Run& run) {
  return simulated(run, clusters_of({run})) / run.seconds - 1;
}

TEST(TorchtitanSteps, AreForecastWithoutAnotherRow) {
  const std::vector<scoreboard::Run> runs = titan(
      "3,Llama3.1-8B,128,FSDP + compile,FSDP 128,8192,2,256,selective,bf16,1,6514,62.0,,8xH100 "
      "96GB,repository,seen\n"
      "A100 FSDP2,Llama3-8B,64,FSDP2 eager,FSDP 64,8192,1,64,selective "
      "layer,bf16,0,2904,,56.8,64 A100-80GB,history,seen\n");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].cluster, "grand-teton");
  EXPECT_FALSE(runs[0].held_out);
  EXPECT_TRUE(runs[0].candidates[0].practice().keeps_operators);
  EXPECT_EQ(runs[1].cluster, "dgx-a100");
  EXPECT_TRUE(runs[1].held_out);
  EXPECT_EQ(runs[1].candidates[0].job().recompute.nodes, "block.[0-15]");  // every other block
  for (const scoreboard::Run& run : runs) EXPECT_NEAR(off(run), 0, 0.08) << run.row;
}

TEST(TorchtitanSteps, TakeDegreesFromTheRow) {
  const std::vector<scoreboard::Run> runs = titan(
      "6,Llama3.1-405B,512,4D 1F1B + AsyncTP,\"FSDP 4, CP 2, TP 8, PP "
      "8\",65536,8,,full,float8,1,47,75.9,,8xH100 96GB,repository,seen\n"
      "paper T1,Llama3.1-8B,8,FSDP,FSDP 8,8192,2,16,selective,bf16,,6258,81.9,,8xH100 "
      "96GB,paper,recalled\n"
      "A100 FSDP2,Llama2-70B,64,FSDP2 eager,FSDP 64,4096,2,128,selective "
      "op,bf16,0,OOM,OOM,,64 A100-80GB,history,seen\n");
  const config::Job& job = runs.at(0).candidates[0].job();
  EXPECT_EQ(job.parallel.cp, 2);
  EXPECT_EQ(job.parallel.pp, 8);
  EXPECT_EQ(job.run.global_batch, 32);
  EXPECT_EQ(job.run.micro_batch, 1);
  EXPECT_EQ(runs[0].apart, "asynchronous tp");
  EXPECT_NEAR(runs[0].seconds, 32 * 65536.0 / (47 * 512), 1e-9);
  EXPECT_EQ(runs[1].apart, "recalled");
  EXPECT_EQ(runs[2].unscored, "no tokens a second");
}

// What a block keeps it does not compute again.
TEST(TorchtitanSteps, KeptOperatorsCostLessThanWholeBlocks) {
  const std::string row =
      "1,Llama3.1-8B,8,FSDP,FSDP 8,8192,2,16,{},bf16,0,5762,82.4,,8xH100 96GB,x,seen\n";
  const auto seconds = [&](const char* kept) {
    const scoreboard::Run run = titan(fmt::format(fmt::runtime(row), kept)).at(0);
    return estimated(run, clusters_of({run}));
  };
  EXPECT_LT(seconds("no"), 0.97 * seconds("selective"));
  EXPECT_LT(seconds("selective"), 0.95 * seconds("full"));
}

TEST(FmsSteps, BlocksThatRunAgainFollowFromHfuOverMfu) {
  const std::vector<scoreboard::Run> runs = fms_runs(Csv::parse(
      "model,sharding,compile,activation_ckpt,batch_per_gpu,seq,gpus,gpu,tokens_s_gpu,mfu,hfu\n"
      "Llama2-7B,HSDP,1,none,2,4096,128,A100-80GB,4550,0.68,0.68\n"
      "Llama2-34B,FSDP,1,selective,2,4096,128,A100-80GB,820,0.55,0.74\n"
      "Llama2-13B,FSDP,1,selective,2,4096,96,H100-80GB,4850,0.43,0.46\n",
      "rows"));
  EXPECT_EQ(runs.at(0).candidates[0].job().parallel.dp_replicate, 16);
  EXPECT_EQ(runs[0].candidates[0].job().recompute.policy, RecomputePolicy::kNone);
  EXPECT_EQ(runs.at(1).candidates[0].job().recompute.policy, RecomputePolicy::kFull);
  EXPECT_EQ(runs.at(2).candidates[0].job().recompute.nodes, "block.[0-7]");
  for (const scoreboard::Run& run : runs) EXPECT_NEAR(off(run), 0, 0.06) << run.row;
}

TEST(Hardware, APartWithFewerWattsIsSlowerByItsClock) {
  Cluster cluster = find_cluster("mosaic-h100");
  const std::vector<scoreboard::Run> runs = fms_runs(Csv::parse(
      "model,sharding,compile,activation_ckpt,batch_per_gpu,seq,gpus,gpu,tokens_s_gpu,mfu,hfu\n"
      "Llama2-13B,FSDP,1,none,8,4096,8,H100-80GB,4850,0.43,0.43\n",
      "rows"));
  const double fast = runs[0].candidates[0].step_seconds(cluster);
  cluster.gpu.clock = 0.5;
  const double slow = runs[0].candidates[0].step_seconds(cluster);
  EXPECT_GT(slow, 1.5 * fast);
  EXPECT_LT(slow, 2 * fast);
}

const Table& table_named(const char* name) {
  static const std::vector<Table> kTables = all_tables();
  return *std::ranges::find(kTables, name, &Table::name);
}

TEST(Sc21Figures, RatiosAreToTheFiguresFirstRow) {
  const std::vector<Case> cases = table_named("megatron_sc21_figures")
                                      .cases(Csv::parse("figure,setup,x,series,value\n"
                                                        "fig8,equation,b=16,batch=128,0.75\n"
                                                        "fig12,175B,batch=60,non-interleaved,136\n"
                                                        "fig12,175B,batch=60,interleaved,147\n"
                                                        "fig13,162B,\"(8,8)\",batch=32,142\n",
                                                        "rows"));
  ASSERT_EQ(cases.size(), 5U);
  EXPECT_THAT(cases[0].unscored, HasSubstr("equation 1"));
  EXPECT_EQ(cases[1].quantity, "throughput");
  EXPECT_EQ(cases[2].quantity, "ratio");
  EXPECT_NEAR(cases[2].measured, 108.1, 0.1);
  EXPECT_NEAR(cases[2].forecast, cases[2].measured, 5);
  EXPECT_NEAR(cases[4].forecast / cases[4].measured, 1, 0.1);
}

TEST(MfuHistory, SingleHostsAreForecastByTheirKernels) {
  const std::vector<scoreboard::Run> runs = history_runs(
      Csv::parse("model,accelerators,value,metric\n"
                 "GPT3-1.3B seq 2048 FlashAttention,8 A100-80GB,189,TF/GPU\n"
                 "GPT3-2.7B seq 8192 FlashAttention-2,8 A100-80GB,225,TF/GPU\n"
                 "\"MT-NLG 530B, batch 1920, TP8 PP35\",2800 A100-80GB,50.2,s/iteration\n"
                 "Gopher 280B,4096 TPU v3,32.5,MFU %\n"
                 "Llama-2-7B picotron,64 H100,38,MFU %\n",
                 "rows"));
  EXPECT_NEAR(off(runs.at(0)), 0, 0.08);
  EXPECT_NEAR(off(runs.at(1)), 0, 0.08);
  EXPECT_EQ(runs.at(2).candidates[0].job().parallel.dp_shard, 10);
  EXPECT_THAT(runs.at(3).unscored, HasSubstr("TPU"));
  EXPECT_THAT(runs.at(4).unscored, HasSubstr("not told"));
}

TEST(V100Steps, AreInHalfPrecisionThatTheGpuHas) {
  const std::vector<scoreboard::Run> runs =
      v100_runs(Csv::parse("setup,size,gpus,tp,pp,dp,zero,offload,mbs,gbs,seq,sec_per_iter\n"
                           "3D Megatron,52B,64,4,16,1,-,,4,1024,1024,129\n"
                           "HF + DeepSpeed ZeRO-3,52B,64,1,1,64,3,none,8,512,1024,117\n",
                           "rows"));
  EXPECT_EQ(runs.at(0).candidates[0].job().precision.compute, DType::kF16);
  const Case one = step_time_case(runs[0], clusters_of(runs), simulated);
  EXPECT_LT(*one.low, one.measured);
  EXPECT_GT(*one.high, one.measured);
  EXPECT_THAT(runs.at(1).unscored, HasSubstr("not told"));
}

TEST(PretrainingFlops, AreOfLlamasOnGpusThatWereMeasured) {
  const auto small = pretraining_flops("Llama-2-7B", "A100-80GB");
  ASSERT_TRUE(small.has_value());
  EXPECT_GT(*small, 0.3 * 312e12);
  EXPECT_LT(*small, 0.7 * 312e12);
  EXPECT_FALSE(pretraining_flops("GPT-2 124M", "A100-80GB").has_value());
  EXPECT_FALSE(pretraining_flops("Llama-3-8B", "TPU v4").has_value());
}

}  // namespace
}  // namespace trireme::scoreboard::published_runs_test
