// Rollouts: the forms of their lines, their tokens and numbers, and what is refused.
#include "trireme/data/chat/rollouts.h"

#include <gmock/gmock.h>

#include "tests/harness/preferences.h"
#include "trireme/base/error.h"

namespace trireme::chat::rollouts_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RolloutLine read(const std::string& json) { return read_rollouts(json, "f:1", 256); }

std::string refusal(const std::string& json) {
  try {
    read(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "taken";
}

TEST(Rollouts, ALineHasAGroup) {
  const RolloutLine line = read(R"({"prompt": "2+2?", "completions": ["4", "5"],
      "rewards": [1, -0.5], "logprobs": [[-0.5, -1], [-2, -3]]})");
  ASSERT_EQ(line.prompt.size(), 1u);
  EXPECT_EQ(line.prompt[0].content, "2+2?");
  ASSERT_EQ(line.answers.size(), 2u);
  EXPECT_EQ(line.answers[1].answer[0].content, "5");
  EXPECT_TRUE(line.answers[1].answer[0].trained);
  EXPECT_EQ(line.answers[1].reward, -0.5);
  EXPECT_THAT(line.answers[0].log_probs, ElementsAre(-0.5, -1));
  EXPECT_THAT(line.answers[0].reference, IsEmpty());
  EXPECT_FALSE(line.group);
}

// Single answers belong together by their key, else by their prompt.
TEST(Rollouts, SingleAnswersHaveAGroupsKey) {
  const std::string rest = R"("completion": "4", "reward": 1, "ref_logprobs": [-1])";
  const RolloutLine text = read(R"({"prompt": "a", )" + rest + "}");
  EXPECT_THAT(text.answers[0].reference, ElementsAre(-1));
  EXPECT_EQ(text.group, read(R"({"prompt": "a", )" + rest + "}").group);
  EXPECT_NE(text.group, read(R"({"prompt": "b", )" + rest + "}").group);
  EXPECT_EQ(read(R"({"prompt": "a", "group": 7, )" + rest + "}").group,
            read(R"({"prompt": "b", "group": 7, )" + rest + "}").group);
  EXPECT_NE(read(R"({"prompt": "a", "group": "x", )" + rest + "}").group, text.group);
}

TEST(Rollouts, IdsTakeThePlaceOfTexts) {
  const RolloutLine line = read(R"({"prompt": "kept for people", "prompt_ids": [1, 2],
      "completion_ids": [[3], [4, 5]], "rewards": [0, 1]})");
  EXPECT_THAT(line.prompt_ids, ElementsAre(1, 2));
  EXPECT_THAT(line.answers[1].ids, ElementsAre(4, 5));
  EXPECT_THAT(line.prompt, IsEmpty());
  const RolloutLine one =
      read(R"({"prompt_ids": [1], "completion_ids": [3, 255], "reward": 0, "logprobs": [-1, -2]})");
  EXPECT_THAT(one.answers[0].ids, ElementsAre(3, 255));
  EXPECT_THAT(one.answers[0].log_probs, ElementsAre(-1, -2));
  const RolloutLine chat = read(R"({"prompt": [{"role": "user", "content": "Hi"}],
      "completions": [[{"role": "assistant", "content": "Yo"}]], "rewards": [1]})");
  EXPECT_EQ(chat.answers[0].answer[0].content, "Yo");
}

TEST(Rollouts, AreKnownByTheirKeys) {
  EXPECT_TRUE(has_rollouts(R"({"prompt": "a", "completions": ["b"], "rewards": [1]})", "f"));
  EXPECT_TRUE(has_rollouts(R"({"prompt_ids": [1], "completion_ids": [2]})", "f"))
      << "a line to which no reward was added";
  EXPECT_EQ(read_rollouts(R"({"prompt": "a", "completions": ["b"], "rewards": [1], "group": 7})",
                          "f:1", 256)
                .group,
            "group 7")
      << "lines of several answers may be one group too";
  EXPECT_TRUE(has_rollouts(R"({"prompt": "a", "completion": "b", "reward": 1})", "f"));
  EXPECT_FALSE(
      has_rollouts(R"({"prompt": "a", "completion": "b", "label": true, "reward": 1})", "f"));
  EXPECT_FALSE(has_rollouts(R"({"prompt": "a", "chosen": "b", "rejected": "c"})", "f"));
  EXPECT_FALSE(has_rollouts("[1]", "f"));
}

TEST(Rollouts, RefusalsNameLineAndKey) {
  const auto with = [](const std::string& rest) {
    return refusal(R"({"prompt": "a", "completions": ["b", "c"], )" + rest + "}");
  };
  EXPECT_THAT(with(R"("rewards": [1])"),
              HasSubstr("f:1: rewards has 1 entries, and there are 2 answers"));
  EXPECT_THAT(with(R"("rewards": [1, null])"), HasSubstr("f:1: rewards.1 is null; needs a finite"));
  EXPECT_THAT(with(R"("rewards": [1, NaN])"), HasSubstr("f:1: not valid JSON"));
  EXPECT_THAT(with(R"("rewards": [1, 1e999])"), HasSubstr("f:1"));
  EXPECT_THAT(with(R"("rewards": 1)"), HasSubstr("f:1: rewards is 1"));
  EXPECT_THAT(with(R"("reward": 1, "rewards": [1, 2])"), HasSubstr("both of rewards and reward"));
  EXPECT_THAT(with(R"("scores": [1, 2])"), HasSubstr("neither of rewards and reward"));
  EXPECT_THAT(with(R"("rewards": [1, 2], "logprobs": [[-1]])"),
              HasSubstr("logprobs has 1 entries, and there are 2 answers"));
  EXPECT_THAT(with(R"("rewards": [1, 2], "logprobs": [-1, -2])"),
              HasSubstr("logprobs.0 is -1; needs a list of numbers"));
  EXPECT_THAT(with(R"("rewards": [1, 2], "logprobs": [[-1], ["x"]])"),
              HasSubstr(R"(logprobs.1.0 is "x"; needs a finite number)"));
  EXPECT_THAT(with(R"("rewards": [1, 2], "logprobs": [[-1], [0.5]])"),
              HasSubstr("logprobs.1.0 is 0.5; needs the logarithm"));
  EXPECT_THAT(with(R"("rewards": [1, 2], "tools": [1])"), HasSubstr("has tools"));
  EXPECT_THAT(with(R"("rewards": [1, 2], "completion_mask": [[1], [0]])"),
              HasSubstr("has completion_mask"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completions": [], "rewards": []})"),
              HasSubstr("f:1: completions is empty; needs one answer or more"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completions": [5], "rewards": [1]})"),
              HasSubstr("f:1: completions.0 is 5"));
  EXPECT_THAT(refusal(R"({"prompt": [], "completions": ["b"], "rewards": [1]})"),
              HasSubstr("prompt has no message"));
  EXPECT_THAT(refusal(R"({"completions": ["b"], "rewards": [1]})"), HasSubstr("\"prompt\""));
  EXPECT_THAT(refusal(R"({"prompt_ids": [1], "completions": ["b"], "rewards": [1]})"),
              HasSubstr("prompt_ids without completion_ids"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completion_ids": [[1]], "rewards": [1]})"),
              HasSubstr("\"prompt_ids\" is missing"));
  EXPECT_THAT(refusal(R"({"prompt_ids": [1], "completion_ids": [[1, 256]], "rewards": [1]})"),
              AllOf(HasSubstr("completion_ids.0.1"), HasSubstr("256")));
  EXPECT_THAT(refusal(R"({"prompt_ids": [1], "completion_ids": [[]], "rewards": [1]})"),
              HasSubstr("completion_ids.0 is []; needs a list of one token or more"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completion": "b", "reward": 1, "group": [1]})"),
              HasSubstr("group is [1]; needs a string or a whole number"));
}

class PreparedRollouts : public testing::Test {
 protected:
  text::Dataset prepared(const std::vector<Json>& lines, double validation = 0) {
    return harness::prepared_preferences(directory_, fmt::format("set{}", ++made_), lines,
                                         validation);
  }
  std::string prepare_refusal(const std::vector<Json>& lines) {
    try {
      prepared(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }
  harness::ScratchDirectory directory_;
  int made_ = 0;
};

TEST_F(PreparedRollouts, HaveADocumentEachAnswer) {
  const text::Dataset made = prepared(harness::rollouts(3));  // 2, 3 and 4 answers
  ASSERT_EQ(made.train.documents(), 9);
  text::verify_dataset(made.directory);
  EXPECT_EQ(compared_by(made), config::Compares::kRewards);
  check_preferences(made, config::PreferenceLoss::kGspo);
  EXPECT_THROW(check_preferences(made, config::PreferenceLoss::kDpo), Error);
  const RolloutFile file(made.directory, "train", made.train);
  EXPECT_THAT(file.groups(), ElementsAre(0, 0, 1, 1, 1, 2, 2, 2, 2));
  EXPECT_THAT(file.rewards(), ElementsAre(1, -0.25, 1, -0.25, 1, 1, -0.25, 1, -0.75));
  EXPECT_TRUE(file.log_probs().empty());
  EXPECT_EQ(RolloutFile(made.directory, "val", made.val).rewards().size(), 0u);
}

// The same answers as lines of their own: by prompt, or by key in any order.
TEST_F(PreparedRollouts, LinesOfOneGroupMeet) {
  std::vector<Json> lines;
  for (const auto& [prompt, answer, reward] :
       {std::tuple{"p", "x", 1}, {"q", "y", 2}, {"p", "z", 3}})
    lines.push_back({{"prompt", prompt}, {"completion", answer}, {"reward", reward}});
  const auto groups = [&] {
    const text::Dataset made = prepared(lines);
    const RolloutFile file(made.directory, "train", made.train);
    EXPECT_THAT(file.rewards(), ElementsAre(1, 3, 2));
    return std::vector<double>(file.groups().begin(), file.groups().end());
  };
  EXPECT_THAT(groups(), ElementsAre(0, 0, 1));
  lines[0]["group"] = lines[2]["group"] = "first";
  lines[1]["group"] = "second";
  EXPECT_THAT(groups(), ElementsAre(0, 0, 1));
  lines[1]["group"] = "first";
  EXPECT_THAT(prepare_refusal(lines), AllOf(HasSubstr("jsonl:2: has another prompt than"),
                                            HasSubstr("jsonl:1"), HasSubstr("group \"first\"")));
}

// A number for each token of an answer, with that of its end, and 0 elsewhere.
TEST_F(PreparedRollouts, NumbersLieAtTheirTokens) {
  std::vector<Json> lines = {{{"prompt_ids", {65, 66, 67}},
                              {"completion_ids", {{68, 69}, {70}}},
                              {"rewards", {1, 0}},
                              {"logprobs", {{-1, -2}, {-3}}},
                              {"ref_logprobs", {{-4, -5}, {-6}}}}};
  const text::Dataset made = prepared(lines);
  ASSERT_EQ(made.train.tokens(), 9);
  std::vector<std::int32_t> ids(9), marks(9);
  made.train.read(0, std::span<std::int32_t>(ids));
  made.train_loss->read(0, std::span<std::int32_t>(marks));
  EXPECT_THAT(ids, ElementsAre(65, 66, 67, 68, 69, 65, 66, 67, 70));
  EXPECT_THAT(marks, ElementsAre(0, 0, 0, 7, 7, 0, 0, 0, 7));
  const RolloutFile file(made.directory, "train", made.train);
  EXPECT_THAT(file.log_probs(), ElementsAre(0, 0, 0, -1, -2, 0, 0, 0, -3));
  EXPECT_THAT(file.reference(), ElementsAre(0, 0, 0, -4, -5, 0, 0, 0, -6));
  lines[0]["logprobs"][1] = {-3, -4};
  EXPECT_THAT(prepare_refusal(lines),
              HasSubstr("jsonl:1: logprobs has 2 numbers, and the answer has 1 tokens"));
}

TEST_F(PreparedRollouts, LogProbabilitiesAreOfAllLinesOrNone) {
  std::vector<Json> lines = harness::rollouts(2);
  lines[1]["logprobs"] = {{-1}, {-1}, {-1}};
  EXPECT_THAT(prepare_refusal(lines), AllOf(HasSubstr("jsonl:2: has logprobs, unlike"),
                                            HasSubstr("give them in all lines, or in none")));
  std::swap(lines[0], lines[1]);
  EXPECT_THAT(prepare_refusal(lines), HasSubstr("jsonl:1: logprobs has 1 numbers"));
  lines = {harness::rollouts(1)[0], harness::pairs(1)[0]};
  EXPECT_THAT(prepare_refusal(lines), HasSubstr("jsonl:2: has neither of rewards and reward"));
}

// No answer is held out without the others of its group.
TEST_F(PreparedRollouts, GroupsAreHeldOutWhole) {
  const text::Dataset made = prepared(harness::rollouts(12), 4);
  const RolloutFile train(made.directory, "train", made.train),
      val(made.directory, "val", made.val);
  std::set<double> held(val.groups().begin(), val.groups().end());
  EXPECT_EQ(held.size(), 4u);
  for (const double group : train.groups()) EXPECT_FALSE(held.contains(group));
  EXPECT_EQ(train.rewards().size() + val.rewards().size(), 36u);
}

TEST_F(PreparedRollouts, BrokenFilesAreNamed) {
  const text::Dataset made = prepared(harness::rollouts(2));
  const Path file = made.directory / "train_rollouts.f64";
  const std::string bytes = read_file(file);
  for (const std::string& broken :
       {std::string(), bytes.substr(0, 9), bytes.substr(0, bytes.size() - 8), bytes + bytes}) {
    directory_.write("set1/train_rollouts.f64", broken);
    EXPECT_THROW(RolloutFile(made.directory, "train", made.train), Error) << broken.size();
    EXPECT_THROW(text::open_dataset(made.directory), Error) << broken.size();
  }
}

}  // namespace
}  // namespace trireme::chat::rollouts_test
