// trireme plan, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"
#include "tests/planner/synthetic_machine.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"

namespace trireme::app::plan_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

// The forecast of a written job on its cluster is the plan's; a job for GPUs has none on this machine's cores.
TEST(Plan, IsWhatExplainSaysOfTheCluster) {
  const Desk desk;
  desk.write("job.yaml", kJob);
  const Result result = desk.run({"plan", "job.yaml", "--cluster", "dgx-h100", "--gpus", "16",
                                  "--format", "json", "--out", "planned.yaml"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json best = parse_json(result.out, "plan")["options"][0];
  const double step_s = best["step_s"];
  EXPECT_THAT(read_file(desk / "planned.yaml"),
              HasSubstr("trireme plan job.yaml --cluster dgx-h100 --gpus 16\n"));
  const std::vector<std::string> explain = {"explain", "planned.yaml", "--ranks",
                                            "16",      "--format",     "json"};
  std::vector<std::string> there = explain;
  there.insert(there.end(), {"--cluster", "dgx-h100"});
  const Json forecast = parse_json(desk.run(there).out, "explain")["forecast"];
  EXPECT_NEAR(forecast["step_s"], step_s, 1e-6 * step_s);
  // What today's collectives are waited for is no computing.
  EXPECT_NEAR(forecast["exposed_communication_s"], best["exposed_comm_s"], 1e-6 * step_s);
  EXPECT_NEAR(forecast["bubble_fraction"], best["idle"], 1e-6);
  EXPECT_GT(forecast["exposed_communication_s"], 0.01 * step_s);
  EXPECT_GE(forecast["bubble_fraction"].get<double>() * step_s,
            forecast["exposed_communication_s"].get<double>() - 1e-6 * step_s);
  const Json here = parse_json(desk.run(explain).out, "explain")["forecast"];
  EXPECT_TRUE(here["step_s"].is_null());
  EXPECT_THAT(std::string(here["source"]), HasSubstr("run.device=cuda"));
}

TEST(Plan, RefusesWhatItWouldNotDo) {
  const Desk desk;
  desk.write("job.yaml", kJob);
  const std::string before = read_file(desk / "job.yaml");
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "job.yaml", "--cluster", "dgx-h100", "--gpus", "2"});
    const Result result = desk.run(more);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(refused({"--set", "parallel.tp=4"}), HasSubstr("add --keep"));
  EXPECT_THAT(refused({"--out", "nowhere/planned.yaml"}), HasSubstr("--out nowhere/planned.yaml"));
  EXPECT_THAT(refused({"--out", "./job.yaml"}), HasSubstr("is the job itself"));
  EXPECT_EQ(read_file(desk / "job.yaml"), before);
  EXPECT_THAT(refused({"--tokens", "inf"}), HasSubstr("--tokens inf"));
  EXPECT_THAT(refused({"--deadline", "0.001"}), HasSubstr("needs a later deadline"));
  const Result example =
      desk.run({"job.yaml", "dgx-h100", "eight"}, std::string(TRIREME_BIN_DIR) + "/plan_layout");
  EXPECT_EQ(example.exit_code, 2);
  EXPECT_THAT(example.err, HasSubstr("eight GPUs"));
}

// A calibration is used where it is of this processor and this build; what else is found there keeps nothing from
// running. It may stand for a cluster.
TEST(Calibration, IsOfThisMachine) {
  Desk desk;
  desk.set("XDG_CACHE_HOME", (desk / "cache").string());
  std::filesystem::create_directories(desk / "cache" / "trireme");
  desk.write("job.yaml", "model: {layers: 4, hidden: 256, heads: 4, vocab: 512, seq_len: 128}\n");
  const auto source = [&](const std::string& calibration) {
    desk.write("cache/trireme/calibration.json", calibration);
    const Result result = desk.run({"explain", "job.yaml", "--ranks", "2", "--format", "json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "explain")["forecast"]["source"].get<std::string>();
  };
  // "... of another CPU (ITS, not OWN); ..."
  const auto own_of = [](const std::string& text) {
    const std::size_t at = text.find(", not ") + 6;
    return text.substr(at, text.find("); ", at) - at);
  };
  planner::Calibration made = planner::synthetic_calibration();
  const std::string text = planner::print_calibration(made);
  EXPECT_THAT(source(text.substr(0, text.size() / 2)), HasSubstr("uncalibrated: "));
  const std::string processor = source(text);
  EXPECT_THAT(processor,
              HasSubstr("uncalibrated: the calibration is of another CPU (a \"CPU\", not "));
  made.cpu = own_of(processor);
  const std::string build = source(planner::print_calibration(made));
  EXPECT_THAT(build, HasSubstr("another build (trireme 0, not "));
  made.build = own_of(build);
  EXPECT_EQ(source(planner::print_calibration(made)), "by the calibration of 2026-01-31");

  const auto planned = [&](const std::string& calibration) {
    desk.write("cache/trireme/calibration.json", calibration);
    const Result result =
        desk.run({"plan", "job.yaml", "--cluster", "cache/trireme/calibration.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(planned(planner::print_calibration(made)), Not(HasSubstr("of another")));
  EXPECT_THAT(planned(text), HasSubstr("another CPU"));
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
}  // namespace trireme::app::plan_test
