#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/scoreboard/money.h"

namespace trireme::scoreboard::money_tables_test {
namespace {

using ::testing::HasSubstr;

std::vector<Case> cases_of(const Table& table, std::string_view text) {
  return table.cases(Csv::parse(text, table.name + ".csv"));
}

// The case of the row whose name has `words` in it.
Case with(const std::vector<Case>& cases, std::string_view words) {
  const auto found =
      std::ranges::find_if(cases, [&](const Case& c) { return c.row.find(words) != c.row.npos; });
  if (found == cases.end()) ADD_FAILURE() << "no case has " << words;
  return found == cases.end() ? Case{} : *found;
}

double percent(const Case& c) { return 100 * (c.forecast / c.measured - 1); }

constexpr std::string_view kCosts =
    R"csv(model,accelerator,gpus,tokens_T,quantity,value,source,status
Llama-3 8B+70B,H100-80GB,,15,GPU-hours,7700000.0,model cards,seen
Llama-3-8B,H100-80GB,,15,GPU-hours,1300000.0,model cards,recalled
Llama-3-70B,H100-80GB,,15,GPU-hours,6400000.0,model cards,recalled
DeepSeek-V3,H800,2048,14.8,pretraining H800-hours,2664000.0,report,seen
DeepSeek-V3,H800,2048,14.8,context extension H800-hours,119000.0,report,seen
DeepSeek-V3,H800,2048,14.8,post-training H800-hours,5000.0,report,seen
DeepSeek-V3,H800,2048,14.8,total H800-hours,2788000.0,report,seen
DeepSeek-V3,H800,2048,14.8,total cost USD at 2.00 per GPU-hour,5576000.0,report,seen
GPT-2 124M,A100-80GB,8,0.01,minutes,90,llm.c,seen
GPT-2 124M,A100-80GB,8,0.01,cost USD at about 14 per node-hour,20,llm.c,seen
GPT-2 124M,A100-80GB,8,0.01,MFU % (about),60,llm.c,seen
GPT-2 350M,A100-80GB,8,0.03,hours,14,llm.c,seen
GPT-2 350M,A100-80GB,8,0.03,cost USD,200,llm.c,seen
GPT-3 175B,A100-80GB,1024,0.3,days at 140 TF/GPU,34,SC21,seen
V-JEPA 2 ViT-g,A100,,,GPU-years implied (60/8.4),7.1,vjepa2,derived
modded-nanogpt GPT-2 124M,H100,8,,"minutes, first record",45,modded,seen
)csv";

TEST(EndToEndCost, SumsPartsExactly) {
  const std::vector<Case> cases = cases_of(end_to_end_cost_table(), kCosts);
  EXPECT_EQ(cases.size(), 16u);
  for (const char* row :
       {"DeepSeek-V3: total H800-hours", "DeepSeek-V3: total cost USD", "8B+70B", "implied"}) {
    const Case c = with(cases, row);
    EXPECT_EQ(c.quantity, "sums") << row;
    EXPECT_EQ(c.forecast, c.measured) << row;
    EXPECT_EQ(c.unscored, "") << row;
  }
}

TEST(EndToEndCost, TimesRunsFromTheirMfu) {
  const std::vector<Case> cases = cases_of(end_to_end_cost_table(), kCosts);
  // (6 x 124.4M + 12 x 12 x 768 x 1024) x 10G operations on 8 x 312 TFLOP/s x 0.6.
  EXPECT_NEAR(with(cases, "124M: minutes").forecast, 95.7, 0.1);
  EXPECT_NEAR(with(cases, "124M: cost").forecast, 95.7 / 60 * 14, 0.1);
  for (const char* row : {"124M: minutes", "350M: hours", "350M: cost", "days at"})
    EXPECT_LT(std::abs(percent(with(cases, row))), 10) << row;
  EXPECT_NEAR(percent(with(cases, "days at")), -0.3, 0.1);
}

TEST(EndToEndCost, SaysWhatItCannotForecast) {
  const std::vector<Case> cases = cases_of(end_to_end_cost_table(), kCosts);
  for (const char* row : {"Llama-3-8B", "nanogpt", "post-training"})
    EXPECT_THAT(with(cases, row).unscored, HasSubstr("neither its parts nor an MFU")) << row;
  EXPECT_THAT(with(cases, "MFU").unscored, HasSubstr("an input"));
}

TEST(EndToEndCost, TakesAForecastOfFlops) {
  const Achieved achieved = [](const std::string& model, const std::string& accelerator) {
    return model == "Llama-3-8B" && accelerator == "H100-80GB" ? std::optional(400e12)
                                                               : std::nullopt;
  };
  const std::vector<Case> cases = cases_of(end_to_end_cost_table(achieved), kCosts);
  const Case c = with(cases, "Llama-3-8B");
  EXPECT_EQ(c.quantity, "GPU-hours");
  EXPECT_NEAR(c.forecast, 15e12 * (6 * 8.03e9 + 12.0 * 32 * 4096 * 8192) / 400e12 / 3600, 1);
  EXPECT_NE(with(cases, "Llama-3-70B").unscored, "");
}

TEST(CloudPrices, AddUp) {
  const std::vector<Case> cases =
      cases_of(cloud_prices_table(),
               R"csv(kind,provider,on_demand_usd_per_gpu_h,spot_usd_per_gpu_h,note,source,status
H100-80GB,AWS EC2 P5,7.57 -> 3.90,2.00-2.50,,x,seen
"example 70B: 256xH100, 720 h",column 1 (on demand),,,"compute 719616, storage 1440, egress 2000, total 723056 USD (sum agrees)",x,seen
"example 70B: 256xH100, 720 h",wrong,,,"compute 719616, storage 1440, egress 2000, total 723057 USD",x,seen
)csv");
  EXPECT_NE(with(cases, "AWS").unscored, "");
  EXPECT_EQ(with(cases, "column 1").forecast, 723056);
  EXPECT_EQ(with(cases, "column 1").measured, 723056);
  EXPECT_NE(with(cases, "wrong").forecast, with(cases, "wrong").measured);
}

TEST(CheckpointAsync, KnowsSizesAndRatios) {
  const std::vector<Case> cases =
      cases_of(checkpoint_async_table(), R"csv(system,quantity,value,unit,source,status
PyTorch DCP async,"7B model stall, synchronous save",148.8,s,blog,seen
PyTorch DCP async,"7B model stall, asynchronous save",6.3,s,same,seen
PyTorch DCP async,reduction,23.62,x,same,seen
torchtitan,"async checkpoint overhead reduction, low end",5,x,paper,recalled
SC21 1T,checkpoint size,13.8,TB,paper,recalled
)csv");
  EXPECT_NEAR(percent(with(cases, ": reduction")), 0, 0.01);
  EXPECT_EQ(with(cases, "checkpoint size").forecast, 13.8);  // 14 bytes a parameter, by 1024 GB
  EXPECT_NE(with(cases, "synchronous save").unscored, "");
  EXPECT_NE(with(cases, "torchtitan").unscored, "");
}

TEST(ReliabilityStats, FollowsFromRates) {
  const std::vector<Case> cases = cases_of(reliability_stats_table(),
                                           R"csv(component,category,count,pct_printed,source,status
Faulty GPU,GPU,148,30.1,"arXiv 2407.21783 Table 5 (seen, ids 1, 2): 54 days, 16384 H100",seen
unexpected,summary,419,,"arXiv 2407.21783 Table 5 (seen, ids 1, 2): 54 days, 16384 H100",seen
"effective training time, above (%)",summary,90,,"arXiv 2407.21783 Table 5 (seen, ids 1, 2): 54 days, 16384 H100",seen
MTTF of a 8-GPU job,RSC clusters,1144.8 h (47.7 days),,x,seen: measured
MTTF of a 1024-GPU job,RSC clusters,7.9 h,,x,seen (secondary): measured
MTTF of a 16384-GPU job,RSC clusters,1.8 h,,x,seen (secondary): model projection
MTTF of a 131072-GPU job,RSC clusters,0.23 h,,x,seen (secondary): model projection
RSC-1 / RSC-2 failure rate,RSC clusters,6.50 / 2.34 per 1000 node-days,,x,"recalled, unverified"
)csv");
  EXPECT_NEAR(with(cases, "1024-GPU").forecast, 1144.8 * 8 / 1024, 1e-9);
  EXPECT_NEAR(with(cases, "16384-GPU").forecast, 1.80, 0.01);
  EXPECT_NEAR(with(cases, "131072-GPU").forecast, 0.225, 0.001);
  EXPECT_NEAR(with(cases, "effective").forecast, 90.4, 0.1);
  for (const char* row : {"a 8-GPU", "Faulty", "RSC-1", "unexpected"})
    EXPECT_NE(with(cases, row).unscored, "") << row;
}

}  // namespace
}  // namespace trireme::scoreboard::money_tables_test
