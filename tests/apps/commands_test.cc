// What the front does by itself: help, explain, data, checkpoint, launchers' environments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/program.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/config/parse.h"
#include "trireme/data/text/dataset.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/schedules/csv.h"

namespace trireme::app::commands_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Path kRecipes = Path(TRIREME_SOURCE_DIR) / "recipes";

// Of one run each: those in phases need the name of one.
std::vector<std::string> recipes() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(kRecipes))
    if (!entry.is_directory() && config::load_phases(entry.path()).front().name.empty())
      all.push_back(entry.path().string());
  return all;
}

TEST(Help, EveryCommandHasExamples) {
  const Desk desk;
  EXPECT_THAT(desk.run({"--help"}).out, HasSubstr("train"));
  const std::vector<std::vector<std::string>> commands = {{"train"},
                                                          {"finetune"},
                                                          {"plan"},
                                                          {"explain"},
                                                          {"checkpoint"},
                                                          {"checkpoint", "ls"},
                                                          {"checkpoint", "inspect"},
                                                          {"checkpoint", "verify"},
                                                          {"data"},
                                                          {"data", "prepare"},
                                                          {"data", "inspect"},
                                                          {"data", "verify"},
                                                          {"data", "synth"},
                                                          {"generate"},
                                                          {"evaluate"},
                                                          {"predict"},
                                                          {"diff"},
                                                          {"doctor"},
                                                          {"stack"},
                                                          {"version"}};
  for (std::vector<std::string> command : commands) {
    command.push_back("--help");
    const Result result = desk.run(command);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("Examples:")) << ::testing::PrintToString(command);
    EXPECT_EQ(result.err, "");
  }
}

TEST(Help, ConfigKeysAndVersions) {
  const Desk desk;
  EXPECT_THAT(desk.run({"train", "--help-config"}).out, HasSubstr("global_batch"));
  EXPECT_THAT(desk.run({"version"}).out, HasSubstr("trireme 0."));
  EXPECT_THAT(desk.run({"--version"}).out, HasSubstr("trireme 0."));
}

// Ranks that a recipe's first line starts, and a vocabulary where the text decides it: explain reads no text.
std::vector<std::string> explained(const std::string& recipe, int& ranks) {
  const std::string text = read_file(recipe);
  const std::size_t found = text.find("--ranks ");
  ranks = found == std::string::npos ? 1 : std::stoi(text.substr(found + 8));
  std::vector<std::string> words = {"explain", recipe, "--ranks", std::to_string(ranks)};
  const bool reads_text = text.find("source:") == std::string::npos;
  if (reads_text && text.find("vocab") == std::string::npos)
    words.insert(words.end(), {"--set", "model.vocab=50257"});
  if (text.find("source: pairs") != std::string::npos ||
      text.find("source: clips") != std::string::npos)
    words.insert(words.end(), {"--set", "data.path=FILES"});
  return words;
}

TEST(Explain, EveryRecipeFitsAScreenAndItsPlanReadsBack) {
  const Desk desk;
  ASSERT_FALSE(recipes().empty());
  for (const std::string& recipe : recipes()) {
    int ranks = 0;
    const std::vector<std::string> common = explained(recipe, ranks);
    const auto with = [&](const std::string& format) {
      std::vector<std::string> arguments = common;
      arguments.insert(arguments.end(), {"--format", format});
      const Result result = desk.run(arguments);
      EXPECT_EQ(result.exit_code, 0) << recipe << result.err;
      return result.out;
    };
    const std::string text = with("text");
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 50) << recipe;
    EXPECT_EQ(parse_json(with("json"), recipe)["world"], ranks);
    const std::string plan = with("plan");
    EXPECT_EQ(plan::print(plan::parse(plan)), plan) << recipe;
  }
}

TEST(Explain, EveryLineOfOneRank) {
  const Desk desk;
  const Result result =
      desk.run({"explain", (kRecipes / "gpt_tiny.yaml").string(), "--nproc", "2", "--rank", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("grad_norm"));
}

TEST(Explain, ChecksThePlanOfAFile) {
  Desk desk;
  const std::string plan = desk.run({"explain", (kRecipes / "gpt_tiny.yaml").string(), "--ranks",
                                     "2", "--format", "plan"})
                               .out;
  desk.write("good.plan", plan);
  const Result good = desk.run({"explain", "--check", "good.plan"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("good.plan: plan gpt is valid: ranks 2, lists 1, lines "));
  const Result json = desk.run({"explain", "--check", "good.plan", "--json", "-"});
  EXPECT_EQ(parse_json(json.out, "--json -")["ranks"], 2);

  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = plan;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    desk.write("bad.plan", text.replace(at, from.size(), to));
    const Result bad = desk.run({"explain", "--check", "bad.plan"});
    EXPECT_EQ(bad.exit_code, 3) << bad.err;
    EXPECT_EQ(bad.out, "");
    return bad.err;
  };
  EXPECT_THAT(refusal("forward embed mb=0", "forward embed mb=1"),
              HasSubstr("bad.plan: plan gpt, rank 0, line "));
  EXPECT_THAT(refusal("recipe zero=", "recipe zero=x"), HasSubstr("bad.plan: plan line 3: "));
  EXPECT_THAT(refusal("unsent=2", "unsent=0"), HasSubstr("unsent is 0; needs 1 or more"));

  const Result missing = desk.run({"explain", "--check", "none.plan"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("none.plan"));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"job.yaml"}, {"--ranks", "2"}, {"--memory"}, {"run.steps=2"}}) {
    std::vector<std::string> words = {"explain", "--check", "good.plan"};
    words.insert(words.end(), more.begin(), more.end());
    const Result refused = desk.run(words);
    EXPECT_EQ(refused.exit_code, 2) << more[0];
    EXPECT_THAT(refused.err, HasSubstr("leave out the job")) << more[0];
  }
}

std::vector<std::string> pipeline(const std::string& schedule, const std::string& format) {
  return {"explain",  (kRecipes / "gpt_tiny.yaml").string(),
          "--ranks",  "4",
          "--set",    "model.layers=6",
          "--set",    "run.global_batch=8",
          "--set",    "run.micro_batch=1",
          "--set",    "parallel.pp=4",
          "--set",    "parallel.schedule=" + schedule,
          "--format", format};
}

TEST(Explain, PipelinesAreDrawnAndTraced) {
  const Desk desk;
  for (const char* schedule : {"1f1b", "zb_v"}) {
    const Result text = desk.run(pipeline(schedule, "text"));
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("\nbound by "));
    EXPECT_THAT(text.out, HasSubstr("\n  stage 3 "));
    EXPECT_LE(std::count(text.out.begin(), text.out.end(), '\n'), 50) << text.out;
    const Json json = parse_json(desk.run(pipeline(schedule, "json")).out, "json");
    EXPECT_EQ(json["stages"].size(), 4u);
    EXPECT_GT(json["forecast"]["pipeline_bubble"], 0);
    EXPECT_THAT(desk.run(pipeline(schedule, "svg")).out, HasSubstr("stage 3, rank 3"));
    const Json trace = parse_json(desk.run(pipeline(schedule, "trace")).out, "trace");
    EXPECT_GT(trace["traceEvents"].size(), 100u);
    std::vector<std::string> csv = pipeline(schedule, "csv");
    const std::string compute = desk.run(csv).out;
    csv.push_back("--communication");
    const std::string lowered = desk.run(csv).out;
    EXPECT_THAT(compute, Not(HasSubstr("SEND")));
    EXPECT_THAT(lowered, HasSubstr("0SEND_F0"));
    EXPECT_EQ(schedules::read_csv(compute), schedules::read_csv(lowered));
  }
  const Result refused =
      desk.run({"explain", (kRecipes / "gpt_tiny.yaml").string(), "--communication"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--communication needs --format csv, not text"));
}

// A cluster is explained where none is: 64 ranks as 8 x 4 x 2, and 16,384.
TEST(Explain, AnswersForClusters) {
  const Desk desk;
  const auto explain = [&](const std::string& ranks, std::vector<std::string> keys) {
    std::vector<std::string> command = {"explain", (kRecipes / "gpt_s.yaml").string(),
                                        "--ranks", ranks,
                                        "--set",   "run.micro_batch=1"};
    for (const std::string& key : keys) command.insert(command.end(), {"--set", key});
    const auto start = std::chrono::steady_clock::now();
    const Result result = desk.run(command);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 50) << result.out;
    EXPECT_LT(taken.count(), 10);
    return result.out;
  };
  EXPECT_THAT(explain("64", {"parallel.pp=8", "parallel.dp_shard=4", "parallel.tp=2",
                             "model.layers=14", "run.global_batch=128"}),
              HasSubstr("\n  stage 7 "));
  const std::string large =
      explain("16384", {"parallel.pp=16", "parallel.dp_shard=1024", "parallel.zero=3",
                        "model.layers=62", "run.global_batch=65536"});
  EXPECT_THAT(large, HasSubstr("on 16384 ranks"));
  EXPECT_THAT(large, HasSubstr("\n  stage 15 "));
  EXPECT_THAT(large, HasSubstr(" between\n"));
}

// docs/pipeline.md names the command. TRIREME_UPDATE_GOLDEN=1 draws it anew.
TEST(Explain, ThePictureOfTheDocsIsWhatTheCodeDraws) {
  const Path docs = Path(TRIREME_SOURCE_DIR) / "docs";
  std::vector<std::string> command = pipeline("zb_v", "svg");
  command.insert(command.end(),
                 {"--set", "parallel.costs=" + (docs / "zb_v_4x8_costs.json").string()});
  const Result drawn = Desk().run(command);
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
  const Path picture = docs / "zb_v_4x8.svg";
  if (std::getenv("TRIREME_UPDATE_GOLDEN") != nullptr) replace_file(picture, drawn.out);
  EXPECT_EQ(read_file(picture), drawn.out);
}

TEST(Data, SynthMakesWhatInspectAndVerifyRead) {
  const Desk desk;
  const Result made = desk.run({"data", "synth", "vlm", "scenes", "--count", "12", "--size",
                                "32:48", "--aspect", "2", "--format", "png"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("13 samples in scenes"));
  EXPECT_THAT(desk.run({"data", "inspect", "scenes/train-*.tar"}).out,
              HasSubstr("12 pictures with captions"));
  EXPECT_THAT(desk.run({"data", "verify", "scenes/train-000000.tar"}).out,
              HasSubstr("every sample can be decoded"));
  EXPECT_EQ(desk.run({"data", "synth", "vlm", "scenes"}).exit_code, 2);
  EXPECT_THAT(desk.run({"data", "synth", "text", "t", "--aspect", "2"}).err,
              HasSubstr("data synth text has no --aspect"));
  desk.write("cats/tabby/a.jpg", "no picture");
  const Result bad = desk.run({"data", "verify", "cats"});
  EXPECT_EQ(bad.exit_code, 3);
  EXPECT_THAT(bad.out, HasSubstr("cats/tabby/a.jpg: begins like neither"));
  EXPECT_EQ(desk.run({"data", "synth", "text", "words", "--count", "30"}).exit_code, 0);
  EXPECT_EQ(desk.run({"data", "prepare", "words/words.txt", "--out", "tokens"}).exit_code, 0);
}

TEST(Data, PreparesInspectsAndVerifies) {
  const Desk desk;
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "once upon a time there was number " + std::to_string(i) + "\n";
  desk.write("text.txt", text);
  const Result prepared =
      desk.run({"data", "prepare", "text.txt", "--out", "d", "--tokenizer", "characters"});
  EXPECT_EQ(prepared.exit_code, 0) << prepared.err;
  EXPECT_THAT(prepared.out, HasSubstr("tokenizer   characters"));
  EXPECT_EQ(desk.run({"data", "inspect", "d"}).out, prepared.out);
  EXPECT_THAT(desk.run({"data", "verify", "d"}).out, HasSubstr("every byte is as it was written"));
  const text::Dataset dataset = text::open_dataset(desk / "d");
  EXPECT_EQ(dataset.train_info.text_bytes + dataset.val_info.text_bytes,
            static_cast<std::int64_t>(text.size()));
  // The same again changes nothing.
  const auto before = desk.contents();
  EXPECT_EQ(desk.run({"data", "prepare", "text.txt", "--out", "d", "--tokenizer", "characters"})
                .exit_code,
            0);
  EXPECT_EQ(desk.contents(), before);
}

TEST(Bench, MeasuresTheDiskAndLeavesNothingThere) {
  const Desk desk;
  const auto disk = [&](const std::string& dir) {
    return desk.run(
        {"bench", "disk", "--dir", dir, "--mib", "4", "--repeats", "1", "--json", "disk.json"});
  };
  const Result measured = disk(".");
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_EQ(desk.contents().size(), 1u);
  std::set<std::string> ways;
  const Json figures = parse_json(read_file(desk / "disk.json"), "disk.json");
  for (const Json& way : figures.at("ways")) {
    ways.insert(way.at("way").get<std::string>());
    EXPECT_GT(way.at("write_mb_per_s").get<double>(), 0) << way;
    EXPECT_GT(way.at("read_mb_per_s").get<double>(), 0) << way;
  }
  EXPECT_TRUE(ways.contains("memcpy, one thread") && ways.contains("host memory") &&
              ways.contains("threads, page cache"))
      << measured.out;

  const Result missing = disk("nowhere");
  EXPECT_EQ(missing.exit_code, 3) << missing.err;
  expect_one_line(missing.err);
  EXPECT_THAT(missing.err, HasSubstr("nowhere: cannot make a scratch file"));
}

// Under a launcher a later generation may have them.
TEST(Place, FaultsOfRanksThatNeverRunAreRefused) {
  const Desk desk;
  const Result result =
      desk.run({"train", (kRecipes / "gpt_tiny.yaml").string(), "--ranks", "2",
                "--allow-fault-injection", "--faults", "rank=1 step=1: kill; rank=2 step=1: kill"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank=2 never runs; the last of 2 ranks is rank 1"));
}

TEST(Place, FlagsThenTorchrunThenSlurmThenMpi) {
  Desk desk;
  desk.write("job.yaml", "model: {layers: 1}\n");
  // The conflict with --ranks names what the environment says.
  const auto described = [&] { return desk.run({"train", "job.yaml", "--ranks", "2"}).err; };
  desk.set("OMPI_COMM_WORLD_RANK", "3");
  desk.set("OMPI_COMM_WORLD_SIZE", "8");
  EXPECT_THAT(described(), HasSubstr("rank 3 of 8 (Open MPI)"));
  desk.set("SLURM_PROCID", "1");
  EXPECT_THAT(described(), HasSubstr("(Open MPI)"));  // a batch script, not a step
  desk.set("SLURM_STEP_NUM_TASKS", "4");
  EXPECT_THAT(described(), HasSubstr("rank 1 of 4 (Slurm)"));
  desk.set("SLURM_JOB_NAME", "interactive");
  EXPECT_THAT(described(), HasSubstr("(Open MPI)"));
  desk.set("SLURM_JOB_NAME", "bash");
  EXPECT_THAT(described(), HasSubstr("rank 1 of 4 (Slurm)"));
  desk.set("SLURM_PTY_PORT", "40000");
  EXPECT_THAT(described(), HasSubstr("(Open MPI)"));
  desk.set("RANK", "5");
  desk.set("WORLD_SIZE", "6");
  EXPECT_THAT(described(), HasSubstr("rank 5 of 6 (RANK and WORLD_SIZE)"));
}

}  // namespace
}  // namespace trireme::app::commands_test
