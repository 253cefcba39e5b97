// trireme checkpoint from end to end: what a run saved, cut anew, compared, carried over and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

namespace trireme::app::checkpoint_test {
namespace {

using ::testing::HasSubstr;

TEST(Checkpoints, AreComparedCutAnewAndConverted) {
  Desk desk;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "value[" + std::to_string(i * i % 97) + "];\n";
  desk.write("text.txt", text);
  desk.write("job.yaml",
             "model: {family: llama, layers: 2, hidden: 32, heads: 2, seq_len: 16}\n"
             "data: {path: text.txt}\n"
             "run: {steps: 4, global_batch: 8, micro_batch: 2}\n"
             "checkpoint: {every: 2, async: false}\n");
  const auto done = [&](const std::vector<std::string>& arguments, int code = 0) {
    const Result result = desk.run(arguments);
    EXPECT_EQ(result.exit_code, code) << result.out << result.err;
    return code == 0 || code == 1 ? result.out : result.err;
  };
  done({"train", "job.yaml", "--out", "run", "--ranks", "2", "--set", "parallel.tp=2"});

  EXPECT_THAT(done({"checkpoint", "reshard", "run", "cut", "--to", "pp=2,dp_shard=2,zero=3"}),
              HasSubstr("as 4 ranks would have written it"));
  done({"checkpoint", "verify", "cut/step-4"});
  EXPECT_THAT(done({"checkpoint", "diff", "run", "cut/step-4"}), HasSubstr("0 of "));
  EXPECT_THAT(done({"checkpoint", "diff", "run/checkpoints/step-2", "cut/step-4"}, 1),
              HasSubstr("first    param of model.embed_tokens.weight, element 0"));
  EXPECT_THAT(done({"checkpoint", "reshard", "run", "cut", "--to", "tp=2"}, 2),
              HasSubstr("is there already"));
  EXPECT_THAT(done({"checkpoint", "reshard", "run", "no", "--to", "tp=3"}, 2), HasSubstr("tp=3"));
  EXPECT_THAT(done({"train", "job.yaml", "--resume", "cut/step-4", "--out", "on", "--ranks", "4",
                    "--set", "run.steps=5"}),
              HasSubstr("done: 1 steps"));

  done({"checkpoint", "convert", "run", "theirs"});
  EXPECT_THAT(done({"checkpoint", "convert", "theirs", "back"}),
              HasSubstr("model.weights=back/step-0"));
  EXPECT_THAT(done({"checkpoint", "diff", "run", "back/step-0"}, 1), HasSubstr("0 of 20 tensors"));
  EXPECT_THAT(done({"checkpoint", "convert", "theirs", "deep", "--set", "model.layers=9"}, 3),
              HasSubstr("has no tensor model.layers.2."));
  EXPECT_THAT(done({"checkpoint", "convert", "theirs", "deep", "--set", "optim.lr=5"}, 2),
              HasSubstr("weights do not keep this key"));
  EXPECT_THAT(done({"checkpoint", "convert", "theirs", "long", "--set", "model.seq_len=8"}),
              HasSubstr("set        model.seq_len=8, where config.json says 16"));
  EXPECT_THAT(done({"checkpoint", "convert", "run", "no", "--set", "model.layers=9"}, 2),
              HasSubstr("whose job is fixed"));
  EXPECT_THAT(done({"train", "job.yaml", "--out", "tuned", "--set", "model.weights=back/step-0"}),
              HasSubstr("done: 4 steps"));
}

// A run of five checkpoints, of which files can be changed.
class DamagedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "value[" + std::to_string(i * i % 97) + "];\n";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {family: gpt, layers: 1, hidden: 16, heads: 2, seq_len: 16}\n"
                "data: {path: text.txt}\n"
                "run: {steps: 5, global_batch: 4, micro_batch: 4, eval_every: 0}\n"
                "checkpoint: {every: 1, async: false}\n");
    const Result result = desk_.run({"train", "job.yaml", "--out", "run"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }

  Path file(int step, const std::string& name = "rank-00000.safetensors") const {
    return desk_ / ("run/checkpoints/step-" + std::to_string(step) + "/" + name);
  }
  // Four bytes become others; the size stays.
  void change(int step) const {
    std::string bytes = read_file(file(step));
    for (std::size_t i = 0; i < 4; ++i) bytes[bytes.size() / 2 + i] ^= 0x55;
    std::ofstream(file(step), std::ios::binary) << bytes;
  }
  // The states that `checkpoint ls` shows, by name.
  std::map<std::string, std::string> states() const {
    std::map<std::string, std::string> found;
    const Result listed = desk_.run({"checkpoint", "ls", "run"});
    EXPECT_EQ(listed.exit_code, 0) << listed.err;
    std::istringstream lines(listed.out);
    for (std::string line; std::getline(lines, line) && line.starts_with("step-");) {
      std::istringstream words(line);
      std::string name;
      words >> name >> found[name];
    }
    return found;
  }

  Desk desk_;
};

TEST_F(DamagedRun, VerifyAndLsNameExactlyTheDamagedCheckpoints) {
  const std::map<std::string, std::string> unread = {{"step-1", "unverified"},
                                                     {"step-2", "unverified"},
                                                     {"step-3", "unverified"},
                                                     {"step-4", "unverified"},
                                                     {"step-5", "unverified"}};
  EXPECT_EQ(states(), unread);
  change(5);
  change(2);
  std::filesystem::remove(file(3, "manifest.json"));
  std::filesystem::create_directory(desk_ / "run/checkpoints/step-6.tmp");
  std::map<std::string, std::string> expected = {
      {"step-1", "unverified"}, {"step-2", "damaged"}, {"step-3", "incomplete"},
      {"step-4", "unverified"}, {"step-5", "damaged"}, {"step-6.tmp", "incomplete"}};
  EXPECT_EQ(states(), expected);

  const Result verified = desk_.run({"checkpoint", "verify", "run"});
  EXPECT_EQ(verified.exit_code, 3);
  EXPECT_THAT(verified.err, HasSubstr("cannot be used: step-2, step-3, step-5;"));
  EXPECT_THAT(verified.out, HasSubstr("are not those that were written"));
  expect_one_line(verified.err);
  EXPECT_EQ(desk_.run({"checkpoint", "verify", "run/checkpoints/step-5"}).exit_code, 3);
  EXPECT_EQ(desk_.run({"checkpoint", "verify", "run/checkpoints/step-4"}).exit_code, 0);

  // What was just changed may be changed once more without a trace, so it takes a second until a verdict is kept.
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  desk_.run({"checkpoint", "verify", "run"});
  expected["step-1"] = expected["step-4"] = "verified";
  EXPECT_EQ(states(), expected);
  change(4);
  expected["step-4"] = "damaged";
  EXPECT_EQ(states(), expected);
  change(4);
  expected["step-4"] = "verified";  // as it was, and so are its bytes
  EXPECT_EQ(states(), expected);
}

TEST_F(DamagedRun, WhatFallsBackToAnOlderCheckpointSaysSo) {
  const std::vector<std::string> write = {"generate", "--checkpoint", "run", "--prompt",
                                          "value",    "--tokens",     "3"};
  EXPECT_EQ(desk_.run(write).err, "");
  change(5);
  change(4);
  const Result written = desk_.run(write);
  EXPECT_EQ(written.exit_code, 0) << written.err;
  expect_one_line(written.err);
  EXPECT_THAT(written.err, HasSubstr("step-3 is used; newer checkpoints cannot be: step-5 ("));
  EXPECT_THAT(written.err, HasSubstr("and step-4"));
  const Result resumed = desk_.run({"train", "job.yaml", "--out", "run", "--set", "run.steps=6"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("(step 3); newer checkpoints cannot be used: step-5 ("));
  EXPECT_EQ(desk_.run({"checkpoint", "verify", "run"}).exit_code, 0);
}

}  // namespace
}  // namespace trireme::app::checkpoint_test

#endif  // TRIREME_HAS_WORKER
