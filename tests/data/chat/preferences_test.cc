// Samples of preferences: their forms, their tokens, and what is refused.
#include "tests/harness/preferences.h"

#include <gmock/gmock.h>

#include "trireme/base/error.h"
#include "trireme/data/chat/pack.h"

namespace trireme::chat::preferences_test {
namespace {

using config::Answer;
using testing::HasSubstr;

std::string refusal(const std::string& json) {
  try {
    read_preferred(json, "f:1");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "taken";
}

TEST(Preferred, FormsOfAPairAreOne) {
  const Preferred plain = read_preferred(R"({"prompt":"Hi","chosen":"Yo","rejected":"No"})", "f");
  const Preferred lists = read_preferred(
      R"({"prompt":[{"role":"user","content":"Hi"}],
          "chosen":[{"role":"assistant","content":"Yo"}],
          "rejected":[{"role":"assistant","content":"No"}]})",
      "f");
  const std::string both =
      R"("chosen":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}],
         "rejected":[{"role":"user","content":"Hi"},{"role":"assistant","content":"No"}])";
  const Preferred inside = read_preferred("{" + both + "}", "f");
  const Preferred repeated = read_preferred(R"({"prompt":"Hi",)" + both + "}", "f");
  for (const Preferred* one : {&plain, &lists, &inside, &repeated}) {
    EXPECT_EQ(one->prompt, plain.prompt);
    EXPECT_EQ(one->answers, plain.answers);
    EXPECT_FALSE(one->label);
  }
  const Conversation whole = plain.whole(plain.answers[1]);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[1].content, "No");
  EXPECT_TRUE(whole[1].trained);
}

// Answers before the point where both conversations part are no answers to compare.
TEST(Preferred, ThePromptIsTheLongestCommonBeginning) {
  const Preferred sample = read_preferred(
      R"({"chosen":[{"role":"user","content":"1"},{"role":"assistant","content":"one"},
                    {"role":"user","content":"2"},{"role":"assistant","content":"two"}],
          "rejected":[{"role":"user","content":"1"},{"role":"assistant","content":"one"},
                      {"role":"user","content":"2"},{"role":"assistant","content":"three"}]})",
      "f");
  EXPECT_EQ(sample.prompt.size(), 3u);
  const Conversation whole = sample.whole(sample.answers[0]);
  EXPECT_FALSE(whole[1].trained);
  EXPECT_TRUE(whole[3].trained);
}

TEST(Preferred, ReadsLabels) {
  const Preferred sample =
      read_preferred(R"({"prompt":"Hi","completion":"Yo","label":false})", "f");
  EXPECT_EQ(sample.answers.size(), 1u);
  EXPECT_EQ(sample.label, false);
}

TEST(Preferred, RefusalsNameLineAndKey) {
  EXPECT_THAT(refusal(R"({"prompt":"Hi","chosen":"Yo"})"),
              HasSubstr("f:1: needs chosen and rejected, or prompt, completion and label"));
  EXPECT_THAT(refusal(R"({"prompt":"Hi","chosen":"Yo","rejected":"Yo"})"), HasSubstr("are equal"));
  EXPECT_THAT(refusal(R"({"prompt":"Hi","chosen":5,"rejected":"Yo"})"), HasSubstr("f:1: chosen"));
  EXPECT_THAT(refusal(R"({"prompt":"Hi","chosen":[],"rejected":"Yo"})"),
              HasSubstr("chosen has no message"));
  EXPECT_THAT(refusal(R"({"chosen":"Yo","rejected":"No"})"), HasSubstr("there is no prompt"));
  EXPECT_THAT(refusal(R"({"completion":"Yo","label":true})"), HasSubstr("prompt is missing"));
  EXPECT_THAT(refusal(R"({"prompt":"Hi","completion":"Yo","label":"good"})"), HasSubstr("label"));
  EXPECT_THAT(
      refusal(R"({"prompt":"Hi","completion":"Yo","label":true,"chosen":"a","rejected":"b"})"),
      HasSubstr("needs chosen and rejected, or"));
  EXPECT_THAT(refusal(R"({"prompt":"Hi","chosen":"a","rejected":"b","tools":[1]})"),
              HasSubstr("has tools"));
  const std::string users = R"([{"role":"user","content":"x"}])";
  EXPECT_THAT(refusal(R"({"chosen":)" + users + R"(,"rejected":)" + users + "}"),
              HasSubstr("nothing remains to compare"));
  EXPECT_THAT(refusal(R"({"prompt":"Other",
          "chosen":[{"role":"user","content":"x"},{"role":"assistant","content":"a"}],
          "rejected":[{"role":"user","content":"x"},{"role":"assistant","content":"b"}]})"),
              HasSubstr("prompt is not what chosen and rejected begin with"));
}

class PreparedPreferences : public testing::Test {
 protected:
  // Text of the tokens of a document with this mark.
  static std::string marked(const text::Dataset& made, std::int64_t document, Answer answer) {
    const text::TokenRange range = made.train.document(document);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(range.count)), marks(ids.size());
    made.train.read(range.first, std::span<std::int32_t>(ids));
    made.train_loss->read(range.first, std::span<std::int32_t>(marks));
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (marks[i] == static_cast<std::int32_t>(answer)) text += static_cast<char>(ids[i]);
    return text;
  }
  std::string prepare_refusal(const std::vector<Json>& lines, double validation = 0) {
    try {
      harness::prepared_preferences(directory_, fmt::format("refused{}", ++made_), lines,
                                    validation);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }
  harness::ScratchDirectory directory_;
  int made_ = 0;
};

TEST_F(PreparedPreferences, MarkTheTokensOfAnswers) {
  const text::Dataset made = harness::prepared_preferences(directory_, "pairs", harness::pairs(3));
  ASSERT_EQ(made.train.documents(), 6);
  EXPECT_THAT(marked(made, 2, Answer::kChosen), HasSubstr("bbb<|end|>"));
  EXPECT_EQ(marked(made, 2, Answer::kRejected), "");
  EXPECT_THAT(marked(made, 3, Answer::kRejected), HasSubstr("zz!<|end|>"));
  text::verify_dataset(made.directory);
}

// The answer of the next line, around the end.
TEST_F(PreparedPreferences, LabelsHaveMismatchedAnswers) {
  const text::Dataset made =
      harness::prepared_preferences(directory_, "labels", harness::labels(3));
  ASSERT_EQ(made.train.documents(), 6);
  EXPECT_THAT(marked(made, 0, Answer::kUnwanted), HasSubstr("a<|end|>"));
  EXPECT_THAT(marked(made, 1, Answer::kMismatched), HasSubstr("bb<|end|>"));
  EXPECT_THAT(marked(made, 2, Answer::kWanted), HasSubstr("bb<|end|>"));
  EXPECT_THAT(marked(made, 5, Answer::kMismatched), HasSubstr("a<|end|>"));
  check_preferences(made, config::PreferenceLoss::kKto);
  EXPECT_THROW(check_preferences(made, config::PreferenceLoss::kDpo), Error);
}

TEST_F(PreparedPreferences, RefuseMixedKindsAndSingleLabels) {
  std::vector<Json> mixed = harness::pairs(1);
  mixed.push_back(harness::labels(1)[0]);
  EXPECT_THAT(prepare_refusal(mixed), HasSubstr("refused1.jsonl:2: is an answer with a label"));
  EXPECT_THAT(prepare_refusal(harness::labels(1)), HasSubstr("is the only answer to train on"));
}

TEST_F(PreparedPreferences, LieInOneRow) {
  const text::Dataset made = harness::prepared_preferences(directory_, "rows", harness::pairs(20));
  using Long = config::Chat::Long;
  std::int64_t documents = 0;
  for (const auto& row : packed_comparisons(made.train, 256, Long::kRefuse)) {
    ASSERT_EQ(row.size() % 2, 0u);
    std::int64_t places = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_EQ(row[i].document, row[i - i % 2].document + static_cast<std::int64_t>(i % 2));
      places += row[i].count;
    }
    EXPECT_LE(places, 256);
    documents += std::ssize(row);
  }
  EXPECT_EQ(documents, 40);
  try {
    packed_comparisons(made.train, 64, Long::kRefuse);
    FAIL() << "a comparison was cut";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("comparisons are longer with both conversations"));
  }
  for (const auto& row : packed_comparisons(made.train, 64, Long::kCut))
    EXPECT_LE(row[0].count + row[1].count, 64);
}

}  // namespace
}  // namespace trireme::chat::preferences_test
