// Tables with rows that nothing is known of: these are named, the others are scored.
#include "bench/scoreboard/tolerant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::scoreboard::tolerant_test {
namespace {

using testing::HasSubstr;

Csv rows(const std::string& text) { return Csv::parse(text, "rows"); }

std::vector<Case> numbers(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row)
    all.push_back({.row = "row",
                   .quantity = "value",
                   .measured = csv.need(row, "value"),
                   .lines = {csv.line(row)}});
  return all;
}

TEST(Tolerant, ABadRowCostsItself) {
  const std::vector<Case> all = tolerant(numbers, "value")(rows("value\n1\nOOM\n3\n"));
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0].measured + all[1].measured, 4);
  EXPECT_EQ(all[2].unscored, "rows:3: value 'OOM' is no number");
  EXPECT_EQ(all[2].lines, std::vector<std::size_t>{3});
}

TEST(Tolerant, GoodTablesAreReadOnce) {
  int times = 0;
  const Scorer counted = [&](const Csv& csv) {
    ++times;
    return numbers(csv);
  };
  EXPECT_EQ(tolerant(counted, "value")(rows("value\n1\n2\n")).size(), 2);
  EXPECT_EQ(times, 1);
}

TEST(Tolerant, OurOwnErrorsPass) {
  const Scorer broken = [](const Csv&) -> std::vector<Case> {
    fail(ErrorKind::kInternal, "a bug");
  };
  EXPECT_THROW(tolerant(broken, "value")(rows("value\n1\n")), Error);
}

// Why the only row of a table is not scored; empty: all its cases are.
std::string why_not(const std::string& table, const std::string& columns,
                    const std::string& values) {
  for (const Table& one : all_tables()) {
    if (one.name != table) continue;
    for (const Case& made : one.cases(rows(columns + "\n" + values + "\n")))
      if (!made.unscored.empty()) return made.unscored;
    return "";
  }
  return "no such table";
}

TEST(UnknownRows, OfKorthikanti) {
  const std::string columns =
      "model,heads,hidden,layers,seq,vocab,tp,pp,interleave_v,dp,gpus,global_batch,microbatch,mode,"
      "iter_time_s";
  const auto say = [&](const std::string& values) {
    return why_not("korthikanti_table3_5_e2e", columns, values);
  };
  EXPECT_EQ(say("22B,64,6144,48,2048,51200,8,1,1,1,8,4,4,full_recompute_no_SP,1.42"), "");
  EXPECT_EQ(say("22B,64,6144,48,2048,51200,8,1,1,2,16,8,4,no_recompute_plus_SP,1.42"), "");
  EXPECT_THAT(say("22B,64,6144,48,2048,51200,8,1,1,1,8,4,4,Full recompute,1.42"),
              HasSubstr("mode 'Full recompute' is not known here"));
  EXPECT_THAT(say("22B,63,6144,48,2048,51200,8,1,1,1,8,4,4,full_recompute_no_SP,1.42"),
              HasSubstr("not divisible"));
  EXPECT_THAT(say("22B,64,6144,48,2048,51200,8,1,1,1,8,4,0.5,full_recompute_no_SP,1.42"),
              HasSubstr("microbatch 0.5 is no whole number"));
  EXPECT_THAT(say("22B,64,6144,48,2048,51200,8,1,1,1,8,4,4,full_recompute_no_SP,"),
              HasSubstr("iter_time_s is empty"));
}

TEST(UnknownRows, OfMegatronAndMegaScale) {
  EXPECT_THAT(
      why_not(
          "megatron_sc21_table1",
          "params_B,heads,hidden,layers,seq,vocab,tp,pp,dp,gpus,global_batch,derived_iter_time_s",
          "7.5,32,4096,36,2048,51200,4,1,32,128,500,3.691"),
      HasSubstr("no micro-batch and chunks that divide"));
  const std::string zero3 =
      "scheme,params_B,layers,hidden,heads,seq,vocab,tp,pp,dp,global_batch,gpus,microbatch,derived_"
      "iter_time_s";
  EXPECT_THAT(why_not("megatron_sc21_table2_zero3", zero3,
                      "ZeRO-2,174.6,96,12288,96,2048,51200,1,1,384,1536,384,4,81"),
              HasSubstr("scheme 'ZeRO-2' is not known here"));
  const std::string core =
      "params_B,heads,hidden,layers,seq,vocab,tp,pp,dp,gpus,global_batch,tflops_per_gpu";
  EXPECT_EQ(why_not("megatron_core_h100", core, "177,96,12288,96,4096,131072,,,,96,1152,458.6"),
            "");
  EXPECT_THAT(why_not("megatron_core_h100", core, "16,48,6144,32,4096,131072,,,,96,192,458.6"),
              HasSubstr("tp '' is not known here"));
  const std::string scale =
      "method,model,layers,hidden,heads,seq,vocab,tp,pp,interleave_v,dp,gpus,global_batch,iter_"
      "time_s,mfu_pct";
  EXPECT_EQ(why_not("megascale", scale,
                    "Megatron-LM,530B,105,20480,160,2048,64000,8,35,3,8,2240,2240,,49.2"),
            "");
  EXPECT_THAT(why_not("megascale", scale,
                      "Megatron-LM,530B,105,20480,160,2048,64000,8,35,,8,2240,2240,,49.2"),
              HasSubstr("interleave_v is empty"));
}

TEST(UnknownRows, OfBloomAndMosaic) {
  const std::string bloom =
      "section,date,size_B,hidden,layers,heads,seq,vocab,precision,zero_stage,gpus,dp,tp,pp,mbs,"
      "gbs,mem,sec_per_iter,oom,complete";
  EXPECT_THAT(why_not("bloom_topologies_a100", bloom,
                      "a,1,181B,14336,72,64,2048,250K,fp16,1,384,4,8,12,1,2048,29,143.31,0,1"),
              HasSubstr("vocab '250K' is no number"));
  EXPECT_THAT(why_not("bloom_topologies_a100", bloom,
                      "a,1,181B,14336,72,64,2048,250k,fp8,1,384,4,8,12,1,2048,29,143.31,0,1"),
              HasSubstr("precision 'fp8' is not known here"));
  const std::string mosaic =
      "section,model,hidden,heads,layers,vocab,seq,gpus,gpu,microbatch,global_batch,precision,"
      "sharding,activation_ckpt,act_cpu_offload,derived_step_time_s";
  const auto say = [&](const std::string& values) {
    return why_not("mosaicml_fsdp_mpt", mosaic, values);
  };
  EXPECT_EQ(
      say("a,MPT-7b,4096,32,32,50368,2048,8,H100-80GB,6,48,AMP_BF16,FULL_SHARD,False,False,1.155"),
      "");
  EXPECT_THAT(
      say("a,MPT-7b,4096,32,32,50368,2048,8,l40s,6,48,amp_bf16,FULL_SHARD,False,False,1.155"),
      HasSubstr("gpu 'l40s' is not known here"));
  EXPECT_THAT(say("a,MPT-7b,4096,32,32,50368,2048,8,h100_80gb,6,48,amp_bf16,HYBRID_SHARD,False,"
                  "False,1.155"),
              HasSubstr("sharding 'HYBRID_SHARD' is not known here"));
  EXPECT_THAT(
      say("a,MPT-7b,4096,32,32,50368,2048,8,h100_80gb,6,48,amp_bf16,FULL_SHARD,maybe,False,1.155"),
      HasSubstr("activation_ckpt 'maybe' is not known here"));
}

TEST(UnknownRows, OfTorchtitan) {
  const std::string columns =
      "table,model,gpus,technique,parallelism,seq,local_batch,activation_ckpt,precision,compile,"
      "tokens_s_gpu,"
      "memory_GiB,hardware,source";
  const auto say = [&](const std::string& ranks) {
    return why_not(
        "torchtitan_llama", columns,
        "1,Llama3.1-8B,8,FSDP," + ranks + ",8192,2,selective,bf16,0,5762,82.4,8xH100 96GB,x");
  };
  EXPECT_EQ(say("FSDP 8"), "");
  EXPECT_EQ(say("\"FSDP 4, CP 2\""), "");
  for (const char* ranks :
       {"HSDP 4x8", "DP 8", "fsdp:8", "FSDP 4", "\"FSDP 8, TP 0\"", "FSDP 99999999999"})
    EXPECT_THAT(say(ranks), HasSubstr("is not known here")) << ranks;
}

}  // namespace
}  // namespace trireme::scoreboard::tolerant_test
