// trireme plan, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"

namespace trireme::app {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = R"(
model: {layers: 24, hidden: 2048, heads: 16, vocab: 50304, seq_len: 1024}
parallel: {tp: 2}
precision: {compute: bf16}
run: {global_batch: 64}
)";

TEST(Plan, WritesAJobThatCompiles) {
  const Desk desk;
  desk.write("job.yaml", kJob);
  const Result result = desk.run({"plan", "job.yaml", "--cluster", "dgx-h100", "--gpus", "16",
                                  "--tokens", "1e9", "--out", "planned.yaml"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* word : {"layout", "forecast", "memory", "runners-up", "why",
                           "what would change it", "training on 1 G tokens", "planned.yaml"})
    EXPECT_THAT(result.out, HasSubstr(word));
  const Result explained = desk.run({"explain", "planned.yaml", "--ranks", "16"});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
}

TEST(Plan, JsonHasWhatTheTableHas) {
  const Desk desk;
  desk.write("job.yaml", kJob);
  const Result result = desk.run(
      {"plan", "job.yaml", "--cluster", "dgx-h100", "--gpus", "16", "--keep", "--format", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "plan");
  EXPECT_EQ(json["version"], 1);
  const Json& best = json["options"][0];
  EXPECT_EQ(best["layout"]["tp"], 2);  // kept
  EXPECT_EQ(best["gpus"], 16);
  EXPECT_GT(best["step_s"], 0);
  EXPECT_LT(best["step_s_80"][0], best["step_s"]);
  EXPECT_LE(best["memory_bytes"], json["gpu_memory_bytes"]);
  EXPECT_GT(json["training"]["on_demand"]["dollars"], json["training"]["spot"]["dollars"]);
  EXPECT_FALSE(json["reasons"].empty());
}

TEST(Plan, RefusesWithTheReason) {
  const Desk desk;
  desk.write("job.yaml", kJob);
  desk.write(
      "large.yaml",
      "model: {layers: 96, hidden: 12288, heads: 96, vocab: 51200}\nrun: {global_batch: 8}\n");
  const auto refused = [&](int code, std::vector<std::string> more) {
    more.insert(more.begin(), "plan");
    const Result result = desk.run(more);
    EXPECT_EQ(result.exit_code, code) << result.out;
    return result.err;
  };
  EXPECT_THAT(refused(2, {"job.yaml", "--cluster", "dgx-h100", "--gpus", "0"}),
              HasSubstr("needs 1 or more"));
  EXPECT_THAT(refused(2, {"job.yaml", "--cluster", "dgx-h100", "--gpus", "100000"}),
              HasSubstr("take fewer"));
  EXPECT_THAT(refused(2, {"job.yaml", "--cluster", "dgx-h10"}), HasSubstr("dgx-h100"));
  EXPECT_THAT(refused(2, {"job.yaml"}), HasSubstr("--cluster"));
  EXPECT_THAT(refused(2, {"job.yaml", "--cluster", "dgx-h100", "--tokens", "-1"}),
              HasSubstr("more than 0"));
  EXPECT_THAT(refused(2, {"job.yaml", "--cluster", "dgx-h100", "--gpus", "16", "--keep", "--set",
                          "parallel.tp=3"}),
              HasSubstr("tp=3"));
  EXPECT_THAT(refused(6, {"large.yaml", "--cluster", "dgx-h100", "--gpus", "4"}),
              HasSubstr("GPUs are enough"));
}

// The library without the program.
TEST(Plan, TheExampleAsksTheLibrary) {
  const Desk desk;
  desk.write("job.yaml", kJob);
  const Result result =
      desk.run({"job.yaml", "dgx-h100", "16"}, std::string(TRIREME_BIN_DIR) + "/plan_layout");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("s a step"));
  EXPECT_THAT(result.out, HasSubstr("- tp "));
}

}  // namespace
}  // namespace trireme::app
