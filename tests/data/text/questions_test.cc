#include "trireme/data/text/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"

namespace trireme::text::questions_test {
namespace {

using testing::HasSubstr;

class Questions : public testing::Test {
 protected:
  std::vector<Question> read(const std::string& lines) {
    const Path file = scratch_ / "questions.jsonl";
    replace_file(file, lines);
    return read_questions(file);
  }
  std::string refusal(const std::string& lines) {
    return formats::refusal([&] { read(lines); }, ErrorKind::kData);
  }

  formats::Scratch scratch_;
};

TEST_F(Questions, HaveTheNamesOfEitherForm) {
  const auto all = read(
      "{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 1}\n\n"
      "{\"context\": \"c \", \"choices\": [\"a\", \"b\", \"c\"], \"answer\": 0, \"id\": 7}\r\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].context, "q");
  EXPECT_EQ(all[0].answer, 1U);
  EXPECT_EQ(all[1].context, "c ");
  EXPECT_EQ(all[1].choices.size(), 3U);
  EXPECT_EQ(all[1].answer, 0U);
}

TEST_F(Questions, OfAnotherFormAreRefusedByLineAndKey) {
  const std::string good = "{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 1}\n";
  EXPECT_THAT(refusal(""), HasSubstr("holds no question"));
  EXPECT_THAT(refusal(good + "{\"choices\": [\"a\", \"b\"], \"gold\": 1}"),
              testing::AllOf(HasSubstr("questions.jsonl:2"), HasSubstr("query")));
  EXPECT_THAT(refusal("{\"query\": \"q\", \"choices\": [\"a\"], \"gold\": 0}"), HasSubstr("has 1"));
  EXPECT_THAT(refusal("{\"query\": \"q\", \"choices\": [\"a\", \"\"], \"gold\": 0}"),
              HasSubstr("not empty"));
  EXPECT_THAT(refusal("{\"query\": \"q\", \"choices\": [\"a\", 2], \"gold\": 0}"),
              HasSubstr("choices"));
  EXPECT_THAT(refusal("{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}"),
              HasSubstr("gold"));
  EXPECT_THAT(refusal("{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"answer\": \"a\"}"),
              HasSubstr("answer"));
  EXPECT_THAT(refusal(good + "nonsense"), HasSubstr("questions.jsonl:2"));
}

TEST(Continuations, BeginWhereTheContextWithoutItsSpacesEnds) {
  const Tokenizer bytes = Tokenizer::bytes();
  const auto text_of = [](const Continuation& one) {
    return std::string(one.ids.begin(), one.ids.end());
  };
  const auto apart = continuations({.context = "ab", .choices = {"cd", " e", "\xc3\xa4"}}, bytes);
  EXPECT_EQ(text_of(apart[0]), "ab cd");
  EXPECT_EQ(text_of(apart[1]), "ab e");
  EXPECT_EQ(apart[0].begin, 2U);
  EXPECT_EQ(apart[0].characters, 2U);
  EXPECT_EQ(apart[2].characters, 1U);
  const auto spaced = continuations({.context = "ab \n", .choices = {"cd", "e"}}, bytes);
  EXPECT_EQ(text_of(spaced[0]), "ab \ncd");
  EXPECT_EQ(spaced[0].begin, 2U);
  EXPECT_THAT(formats::refusal(
                  [&] {
                    continuations({.context = " ", .choices = {"a", "b"}}, bytes);
                  },
                  ErrorKind::kData),
              HasSubstr("without context"));
  EXPECT_EQ(continuations({.context = "", .choices = {"a", "b"}}, bytes.with_begin(254))[0].begin,
            1U);
}

}  // namespace
}  // namespace trireme::text::questions_test
