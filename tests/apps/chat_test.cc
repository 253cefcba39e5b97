// Conversations from a file to an answer, as a user runs them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"
#include "trireme/base/json.h"

#if TRIREME_HAS_WORKER

namespace trireme::app::chat_test {
namespace {

using ::testing::HasSubstr;

class Chat : public ::testing::Test {
 protected:
  Chat() {
    std::string lines;
    for (const char* letter : {"a", "b", "c", "d", "e", "f"})
      lines += std::string(R"({"messages": [{"role": "user", "content": ")") + letter +
               R"("}, {"role": "assistant", "content": "yes"}]})" + "\n";
    desk_.write("chats.jsonl", lines);
    desk_.write("job.yaml",
                "model: {family: llama, layers: 1, hidden: 32, heads: 2, seq_len: 96}\n"
                "data: {source: chat, path: chats.jsonl, tokenizer: bytes, chat: phi4_mini, "
                "validation: 1}\noptim: {lr: 2e-2}\nrun: {steps: 60, global_batch: 4}\n");
  }
  Desk desk_;
};

TEST_F(Chat, LearnsResumesOnOtherRanksAndAnswers) {
  const Result first = desk_.run(
      {"train", "job.yaml", "--out", "run", "--set", "checkpoint.every=30", "--steps", "30"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("template phi4_mini"));
  const Result second =
      desk_.run({"train", "job.yaml", "--out", "run", "--ranks", "2", "--steps", "60"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  const Result answer = desk_.run({"generate", "--checkpoint", "run", "--chat", "auto", "--prompt",
                                   "c", "--temperature", "0", "--tokens", "40"});
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("yes"));
  const Result evaluated = desk_.run({"evaluate", "run"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
}

TEST_F(Chat, BrokenLinesAreNamed) {
  desk_.write("chats.jsonl", "{\"messages\": [{\"role\": \"user\"}]}\n");
  const Result result = desk_.run({"train", "job.yaml", "--set", "data.validation=0"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("chats.jsonl"));
  EXPECT_THAT(result.err, HasSubstr("content"));
}

// Equal senders code equal sums, in processes of one rank as in one process.
TEST(Codec, ProcessesHaveTheBitsOfOneRank) {
  Desk desk;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "value " + std::to_string(i * i % 97) + "\n";
  desk.write("text.txt", text);
  desk.write("job.yaml",
             "model: {layers: 1, hidden: 128, heads: 2, seq_len: 32}\n"
             "data: {path: text.txt}\nrun: {steps: 3, global_batch: 4, micro_batch: 1}\n"
             "network: {codec: q4/q8, senders: 2}\n");
  const auto losses = [&](const std::string& out, const std::string& flag, const char* count) {
    const Result result = desk.run({"train", "job.yaml", "--out", out, flag, count});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> all;
    std::istringstream lines(read_file(desk / (out + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (const std::size_t at = line.find("\"loss\":"); at != std::string::npos)
        all.push_back(line.substr(at, line.find(',', at) - at));
    return all;
  };
  const std::vector<std::string> one = losses("one", "--ranks", "1");
  EXPECT_EQ(one.size(), 3U);
  EXPECT_EQ(losses("two", "--nproc", "2"), one);
  const Result resumed = desk.run({"train", "job.yaml", "--out", "two", "--steps", "4", "--ranks",
                                   "4", "--set", "network.senders=0"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("network.senders: was 2, now 4"));
  const Result text_of =
      desk.run({"generate", "--checkpoint", "two", "--prompt", "v", "--tokens", "2"});
  EXPECT_EQ(text_of.exit_code, 0) << text_of.err;
  const Result nothing = desk.run({"explain", "job.yaml", "--set", "model.hidden=32"});
  EXPECT_EQ(nothing.exit_code, 2) << nothing.out;
  EXPECT_THAT(nothing.err, HasSubstr("network.codec=q4/q8: no trained unit has 65536 parameters"));
}

// `evaluate` computes with what training's own evaluations computed with, and the codes are not those of fp32.
TEST(Codec, EvaluateDecodesParametersAsTrainingDid) {
  Desk desk;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "value " + std::to_string(i * i % 97) + "\n";
  desk.write("text.txt", text);
  desk.write("job.yaml",
             "model: {layers: 1, hidden: 128, heads: 2, seq_len: 32}\n"
             "data: {path: text.txt, validation: 0.1}\n"
             "run: {steps: 3, global_batch: 4, micro_batch: 1, eval_every: 3}\n");
  const auto losses = [&](const std::string& codec) {
    const Result trained =
        desk.run({"train", "job.yaml", "--out", codec, "--set", "network.gather=" + codec});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    const std::size_t at = trained.out.find("validation loss ");
    const Result evaluated = desk.run({"evaluate", codec, "--json", "-"});
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    return std::pair(
        at == std::string::npos ? "" : trained.out.substr(at + 16, 6),
        fmt::format("{:.4f}", parse_json(evaluated.out, "loss")["loss"].get<double>()));
  };
  const auto coded = losses("q4"), plain = losses("none");
  EXPECT_EQ(coded.first, coded.second);
  EXPECT_EQ(plain.first, plain.second);
  EXPECT_NE(coded.first, plain.first);
}

}  // namespace
}  // namespace trireme::app::chat_test

#endif
