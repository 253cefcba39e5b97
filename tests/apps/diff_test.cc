// trireme diff as a user runs it: exit code 0 within the tolerance, 1 beyond, 2 for what is no layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"
#include "trireme/base/json.h"

namespace trireme::app::diff_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Diff : public ::testing::Test {
 protected:
  Diff() {
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\n"
                "run: {steps: 6, global_batch: 4, micro_batch: 1}\nparallel: {dp_shard: 4}\n");
  }

  Result diff(std::vector<std::string> more) const {
    more.insert(more.begin(), {"diff", "job.yaml"});
    return desk_.run(more);
  }

  void expect_refused(const std::vector<std::string>& arguments, const std::string& fragment) {
    const Result result = diff(arguments);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(arguments) << result.out;
    expect_one_line(result.err);
    EXPECT_THAT(result.err, HasSubstr(fragment));
  }

  Desk desk_;
};

TEST_F(Diff, RefusesWhatIsNoLayout) {
  expect_refused({}, "--layouts is required");
  expect_refused({"--layouts", "tp"}, "layout 'tp': 'tp' is not key=value, such as tp=2");
  expect_refused({"--layouts", "tp=2", "tp=2,"}, "layout 'tp=2,': nothing follows the last comma");
  expect_refused({"--layouts", "tp=2,,zero=1"}, "'' is not key=value");
  expect_refused({"--layouts", "=2"}, "'=2' is not key=value");
  expect_refused({"--layouts", "tpp=2"}, "parallel.tp");
  expect_refused({"--layouts", "tp=two"}, "parallel.tp");
  expect_refused({"--layouts", "tp=3"}, "more than model.heads=2");
  expect_refused({"--layouts", "dp_shard=3"}, "run.global_batch=4 is not divisible");
  expect_refused({"--layouts", "dp_shard=-1"}, "needs the number of ranks");
  expect_refused({"--layouts", "dp_shard=60000,dp_replicate=60000"}, "needs 1024 or fewer");
  expect_refused({"--layouts", "pp=9"}, "9 pipeline stages for the ");
  expect_refused({"--layouts", "run.micro_batch=2", "--set", "model.dropout=0.1"}, "other noise");
  expect_refused({"--layouts", "model.hidden=64"}, "model.hidden is not a part of a layout");
  expect_refused({"--layouts", "tp=2", "--against", "tq=1"}, "layout 'tq=1'");
  expect_refused({"--layouts", "tp=2", "--dtype", "fp8"}, "fp8");
  expect_refused({"--layouts", "tp=2", "--steps", "0"}, "--steps");
  for (const char* tolerance : {"-1", "nan", "inf"})
    expect_refused({"--layouts", "tp=2", "--tolerance", tolerance},
                   std::string("--tolerance ") + tolerance + ": needs a finite number, 0 or more");
  expect_refused({"--layouts", "tp=2", "--json", "no/diff.json"},
                 "--json no/diff.json: cannot write: No such file");
  expect_refused({"--layouts", "tp=2", "--json", "."}, "--json .: needs a regular file");
  expect_refused({"--layouts", "tp=2", "--set", "precision.compute=bf16"}, "--dtype");
  expect_refused({"--layouts", "tp=2", "--set", "optim.from_weights=true"}, "new optimizer states");
  expect_refused({"--layouts", "run.micro_batch=2", "--set", "lora.rank=2", "lora.dropout=0.1"},
                 "--set lora.dropout=0");
  expect_refused({"--layouts", "tp=2", "--set", "model.family=vlm", "vlm.features=kept"},
                 "--set vlm.features=");
}

#if TRIREME_HAS_WORKER

TEST_F(Diff, RefusesRecordingsThatDoNotFit) {
  expect_refused({"--layouts", "dp_shard=2", "--steps", "100000", "--set", "model.hidden=1024"},
                 "MB are available; lower --steps");
}

TEST_F(Diff, OneLayoutIsComparedWithOneRank) {
  const Result result = diff({"--layouts", "tp=2"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("tp=2 against one rank"));
  EXPECT_THAT(result.out, HasSubstr("no tensor parts"));
  EXPECT_THAT(result.out, HasSubstr("tolerance 1e-11"));
}

TEST_F(Diff, EqualLayoutsAndDataParallelOnesHaveNoUlpBetweenThem) {
  const Result result = diff({"--layouts", "tp=2", "tp=2", "--json", "same.json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  ASSERT_EQ(diff({"--layouts", "dp_shard=2,zero=3", "dp_shard=2,dp_replicate=2,zero=1",
                  "recompute.policy=full", "--against", "", "--dtype", "bf16", "--json", "dp.json"})
                .exit_code,
            0);
  for (const auto& [file, layouts] : {std::pair("same.json", 1u), std::pair("dp.json", 3u)}) {
    const Json json = parse_json(read_file(desk_ / file), file);
    EXPECT_EQ(json["comparisons"].size(), layouts);
    for (const Json& comparison : json["comparisons"]) {
      EXPECT_TRUE(comparison["first"].is_null());
      EXPECT_GT(comparison["rows"].size(), 60u);
      for (const Json& row : comparison["rows"]) EXPECT_EQ(row["ulps"], 0) << row.dump();
    }
  }
}

TEST_F(Diff, PipelinesHaveNoUlpBetweenThemButInTiedSums) {
  const Result untied =
      diff({"--layouts", "pp=2,schedule=zb_h1", "pp=3,schedule=1f1b,zero=2,dp_shard=2", "--against",
            "", "--tolerance", "0", "--set", "model.tied=false"});
  EXPECT_EQ(untied.exit_code, 0) << untied.out << untied.err;
  const Result tied = diff({"--layouts", "pp=2"});
  EXPECT_EQ(tied.exit_code, 0) << tied.out << tied.err;
}

TEST_F(Diff, BeyondTheToleranceItNamesTheFirstTensor) {
  const Result result =
      diff({"--layouts", "tp=2", "--tolerance", "0", "--steps", "1", "--json", "diff.json"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("parts at  step 0, activation block.0: micro-batch "));
  EXPECT_THAT(result.out, HasSubstr("--all shows every tensor"));
  const Json rows = parse_json(read_file(desk_ / "diff.json"), "json")["comparisons"][0];
  EXPECT_EQ(rows["rows"][rows["first"].get<std::size_t>()]["name"], "block.0");
  const Result all = diff({"--layouts", "tp=2", "--steps", "1", "--all"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.out, HasSubstr("ln_f.bias"));
}

TEST_F(Diff, TakesTheModelsOwnVocabularyWhereNoDataAreRead) {
  const Result result = diff({"--layouts", "tp=2", "--steps", "1", "--set", "model.vocab=127"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("step start"));
}

// Every family's recipe, whatever its rows.
TEST_F(Diff, TakesEveryFamily) {
  const std::vector<std::string> joint = {"parallel.schedule=gpipe"};
  for (const char* recipe : {"vjepa_tiny", "hvjepa_tiny", "probe_tiny", "ac_tiny", "vit_tiny",
                             "clip_tiny", "vlm_tiny", "arrcoc_tiny", "hnet_tiny", "llama_tiny"}) {
    std::vector<std::string> arguments = {
        "diff",
        (Path(TRIREME_SOURCE_DIR) / "recipes" / recipe).string() + ".yaml",
        "--layouts",
        "tp=2",
        "--steps",
        "1",
        "--json",
        "diff.json",
        "--set",
        "run.global_batch=2",
        "run.micro_batch=1"};
    if (std::string(recipe) == "clip_tiny")
      arguments.insert(arguments.end(), joint.begin(), joint.end());
    const Result result = desk_.run(arguments);
    ASSERT_EQ(result.exit_code, 0) << recipe << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("no tensor parts"));
    const Json rows = parse_json(read_file(desk_ / "diff.json"), "json")["comparisons"][0]["rows"];
    for (const Json& row : rows) EXPECT_EQ(row["compared"], true) << row.dump();
  }
}

// A probe on another run's tower: both sides begin with that.
TEST_F(Diff, BeginsWithTheJobsWeights) {
  const auto recipe = [](const char* name) {
    return (Path(TRIREME_SOURCE_DIR) / "recipes" / name).string();
  };
  ASSERT_EQ(desk_
                .run({"train", recipe("vjepa_tiny.yaml"), "--steps", "1", "--no-calibrate", "--out",
                      "tower", "--set", "run.global_batch=2", "run.micro_batch=1"})
                .exit_code,
            0);
  std::vector<std::string> arguments = {
      "diff",  recipe("probe_tiny.yaml"), "--layouts",        "tp=2", "--steps", "1",
      "--set", "run.global_batch=2",      "run.micro_batch=1"};
  const auto loss = [&] {
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("no tensor parts"));
    return result.out.substr(result.out.find("loss "), 13);
  };
  const std::string drawn = loss();
  arguments.push_back("model.weights=tower");
  EXPECT_NE(loss(), drawn);
}

TEST_F(Diff, SaysWhatItDoesNotCompare) {
  const Result result = desk_.run(
      {"diff", (Path(TRIREME_SOURCE_DIR) / "recipes/hnet_tiny.yaml").string(), "--layouts",
       "run.micro_batch=2", "--steps", "1", "--set", "run.global_batch=2", "run.micro_batch=1"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("left out  "));
  EXPECT_THAT(result.out, HasSubstr("which have other sizes (step 0 embed/starts.0"));
}

// Decay multiplies the weights by -10,000 a step: fp32 ends within a few.
TEST_F(Diff, WritesNumbersThatAreNotFiniteByName) {
  diff({"--layouts", "tp=2", "--steps", "12", "--dtype", "fp32", "--json", "nan.json", "--set",
        "optim.lr=100", "optim.weight_decay=100", "optim.clip=0", "optim.warmup_steps=0"});
  const Json json = parse_json(read_file(desk_ / "nan.json"), "nan.json");
  int named = 0;
  for (const Json& row : json["comparisons"][0]["rows"])
    if (row["compared"].get<bool>()) named += row["a"] == "nan" || row["a"] == "inf";
  EXPECT_GT(named, 0);
}

TEST_F(Diff, RunsOnTheJobsDataAndSaysWhatItComputesIn) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i) + " of a text\n";
  desk_.write("text.txt", text);
  const Result result =
      diff({"--layouts", "cp=2", "dp_shard=2", "--dtype", "fp32", "--set", "data.path=text.txt"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("fp32, text.txt"));
  EXPECT_THAT(result.out, HasSubstr("dp_shard=2 against cp=2"));
  EXPECT_THAT(result.out, HasSubstr("tolerance 0.0001"));
  EXPECT_THAT(diff({"--layouts", "cp=2"}).out, HasSubstr("random tokens"));
}

#endif

}  // namespace
}  // namespace trireme::app::diff_test
