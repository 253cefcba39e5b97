// Pretraining, tuning with adapters on other data, resuming and generating, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "trireme/base/json.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/safetensors.h"

namespace trireme::app::lora_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Lora : public ::testing::Test {
 protected:
  Lora() {
    std::string numbers, words;
    for (int i = 0; i < 3000; ++i) {
      numbers += "value[" + std::to_string(i) + "] = " + std::to_string(i * i % 97) + ";\n";
      words += (i % 3 == 0 ? "the oars of a trireme " : "pull in three banks, ");
    }
    desk_.write("numbers.txt", numbers);
    desk_.write("words.txt", words);
    desk_.write("job.yaml",
                "model: {layers: 2, hidden: 64, heads: 4, seq_len: 32}\n"
                "data: {path: numbers.txt}\noptim: {lr: 3e-3}\n"
                "run: {steps: 50, global_batch: 8}\n");
  }

  Result train(const std::string& out, std::vector<std::string> sets,
               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", "job.yaml", "--out", out};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return desk_.run(arguments);
  }

  std::vector<double> losses(const std::string& run) const {
    std::vector<double> all;
    std::istringstream text(read_file(desk_ / (run + "/metrics.jsonl")));
    for (std::string line; std::getline(text, line);)
      if (const Json json = parse_json(line, run); json.contains("loss"))
        all.push_back(json["loss"].get<double>());
    return all;
  }

  // The bytes of every unit's parameters.
  std::map<std::string, std::string> parameters(const std::string& checkpoint) const {
    std::map<std::string, std::string> units;
    const Path directory = desk_ / checkpoint;
    for (const formats::ManifestUnit& unit : formats::verify_checkpoint(directory).units) {
      std::string& bytes = units[unit.name];
      bytes.resize(static_cast<std::size_t>(unit.numel) * sizeof(float));
      for (const formats::ManifestSlice& slice : unit.slices) {
        if (slice.kind != "param") continue;
        const formats::SafetensorsFile file(directory / slice.file);
        const formats::Tensor* tensor = file.find(slice.tensor);
        std::memcpy(bytes.data() + static_cast<std::size_t>(slice.offset) * sizeof(float),
                    tensor->bytes.data(), tensor->bytes.size());
      }
    }
    return units;
  }

  static std::size_t size_of(const Path& directory) {
    std::size_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      bytes += entry.file_size();
    return bytes;
  }

  Desk desk_;
};

TEST_F(Lora, TunesOnOtherDataAndLeavesTheModelAsItWas) {
  ASSERT_EQ(train("base", {}).exit_code, 0);
  const std::string weights = "base/checkpoints/step-50";
  const std::vector<std::string> tuning = {
      "model.weights=" + weights, "data.path=words.txt", "lora.rank=4",
      "lora.dropout=0.05",        "optim.lr=1e-2",       "run.steps=100"};
  const Result tuned = train("tuned", tuning, {"--ranks", "2"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_THAT(tuned.out, HasSubstr("weights   " + (desk_ / weights).string() + " (step 50)\n"));
  const std::vector<double> loss = losses("tuned");
  EXPECT_EQ(loss.size(), 100u);
  EXPECT_LT(loss.back(), 0.6 * loss.front());

  const auto before = parameters(weights), after = parameters("tuned/checkpoints/step-100");
  for (const auto& [unit, bytes] : before) EXPECT_EQ(after.at(unit), bytes) << unit;
  EXPECT_EQ(after.size(), before.size() + 2);
  EXPECT_TRUE(after.contains("block.1.lora"));

  const Result text = desk_.run({"generate", "--checkpoint", "tuned", "--prompt", "the oars",
                                 "--tokens", "40", "--temperature", "0"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.size(), 8u + 40 + 1);
  EXPECT_THAT(text.out, Not(HasSubstr(";")));  // of the words now

  // Adapters have no place in a model without: it says so, and begins with the rest.
  const Result plain = train("plain", {"model.weights=tuned/checkpoints/step-100", "run.steps=1"});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("no place for 16 of its parameters: "
                                   "transformer.h.0.attn.c_attn.lora_A.weight"));
}

TEST_F(Lora, CheckpointsOfWhatTrainsNeedTheRest) {
  ASSERT_EQ(train("base", {"run.steps=4"}).exit_code, 0);
  std::vector<std::string> tuning = {"model.weights=base/checkpoints/step-4", "lora.rank=2",
                                     "run.steps=6", "checkpoint.trainable_only=true",
                                     "data.path=words.txt"};
  ASSERT_EQ(train("straight", tuning).exit_code, 0);
  ASSERT_EQ(train("halted", tuning, {"--steps", "3"}).exit_code, 0);
  EXPECT_LT(10 * size_of(desk_ / "halted/checkpoints/step-3"),
            size_of(desk_ / "base/checkpoints/step-4"));
  const Result resumed = train("halted", tuning, {"--ranks", "2"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(parameters("halted/checkpoints/step-6"), parameters("straight/checkpoints/step-6"));
  // From anywhere, though the command named the weights relative to where it stood.
  const Result text =
      Desk().run({"generate", "--checkpoint", (desk_ / "halted").string(), "--prompt", "a"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(desk_.run({"checkpoint", "verify", "halted"}).exit_code, 0);

  ASSERT_EQ(train("other", {"run.steps=4", "run.seed=9"}).exit_code, 0);
  tuning[0] = "model.weights=other/checkpoints/step-4";
  tuning[2] = "run.steps=8";
  const Result wrong = train("halted", tuning);
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.err, HasSubstr("its run began with a checkpoint whose manifest has digest"));
  std::filesystem::remove_all(desk_ / "base");
  const Result gone = desk_.run({"generate", "--checkpoint", "halted", "--prompt", "a"});
  EXPECT_EQ(gone.exit_code, 3);
  EXPECT_THAT(gone.err, HasSubstr("base/checkpoints/step-4"));
}

TEST_F(Lora, WhatIsLeftOutFromNowOnMustBeThatOfTheWeights) {
  ASSERT_EQ(train("base", {"run.steps=1"}).exit_code, 0);
  ASSERT_EQ(train("other", {"run.steps=1", "run.seed=7"}).exit_code, 0);
  const std::string base = "model.weights=base/checkpoints/step-1";
  const std::string other = "model.weights=other/checkpoints/step-1";
  const std::string small = "checkpoint.trainable_only=true";
  ASSERT_EQ(train("tuned", {base, "lora.rank=2", "run.steps=1"}).exit_code, 0);
  const Result wrong = train("tuned", {other, "lora.rank=2", "run.steps=2", small});
  EXPECT_EQ(wrong.exit_code, 3);
  expect_one_line(wrong.err);
  EXPECT_THAT(wrong.err, HasSubstr("unit embed here is not that of model.weights=" +
                                   (desk_ / "other/checkpoints/step-1").string()));
  EXPECT_EQ(train("tuned", {base, "lora.rank=2", "run.steps=2", small}).exit_code, 0);

  // Nothing is left out here, but every checkpoint of one run names one base.
  const std::string all = "lora.also=*";
  ASSERT_EQ(train("all", {base, "lora.rank=2", all, "run.steps=1", small}).exit_code, 0);
  const Result mixed = train("all", {other, "lora.rank=2", all, "run.steps=2", small});
  EXPECT_EQ(mixed.exit_code, 3);
  EXPECT_THAT(mixed.err, HasSubstr("its run began with a checkpoint whose manifest has digest"));
}

TEST_F(Lora, WhatCannotBeIsRefused) {
  const auto refused = [&](const std::vector<std::string>& sets, int code, const std::string& why,
                           const std::vector<std::string>& more = {}) {
    const auto before = desk_.contents();
    const Result result = train("run", sets, more);
    EXPECT_EQ(result.exit_code, code) << result.err;
    expect_one_line(result.err);
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_EQ(desk_.contents(), before);
  };
  refused({"model.frozen=*"}, 2, "freezes every unit");
  refused({"model.frozen=blocks"}, 2, "\"blocks\" matches none");
  refused({"lora.alpha=3"}, 2, "lora.rank=0");
  refused({"model.weights=nowhere"}, 3, "model.weights=nowhere: no such directory");
  desk_.write("nowhere/manifest.json", "{}");
  refused({"model.weights=nowhere"}, 3, "manifest.json: does not end with its digest");

  ASSERT_EQ(train("base", {"run.steps=1"}, {"--ranks", "2", "--set", "parallel.tp=2"}).exit_code,
            0);
  refused({"model.weights=base", "model.ffn=128"}, 2, "model.ffn is 256 there and 128 here");
  refused({"model.weights=base", "model.ffn=128"}, 3,
          "transformer.h.0.mlp.c_fc.weight is [128, 64] there (part 0 of 2), this model needs [64, "
          "64]",
          {"--allow", "model.ffn"});
}

}  // namespace
}  // namespace trireme::app::lora_test

#endif
