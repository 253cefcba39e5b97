// Ids of questions about pictures and of their answers, in bytes and in the tokens of a tokenizer.
#include "trireme/data/loaders/tokens/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/text/tokenizer_json.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::loaders::words_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<std::int64_t>;

// Bytes and "?r" (256), "rg" (257), "rgb" (258); then <s> (259), </s> (260) and a picture's token (261).
text::Tokenizer tokenizer(const std::string& image = "<image>", bool begins = true) {
  text::ByteLevelBpe bpe{.merges = {{'r', 'g'}, {257, 'b'}}, .special = {"<s>", "</s>", image}};
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* token : {"?r", "rg", "rgb"}) bpe.tokens.emplace_back(token);
  bpe.merges.emplace_back('?', 'r');
  Json json = Json::parse(text::print_tokenizer_json(bpe));
  json["pre_tokenizer"]["use_regex"] = false;  // so that words may join across anything
  if (begins)
    json["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", Json::array()},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {259}}, {"tokens", {"<s>"}}}}}}};
  return text::Tokenizer::hugging_face(json.dump(), "t").with_ends({260});
}

config::Job job_of(const std::vector<std::string>& sets = {}) {
  config::Job job;
  for (const char* set : {"model.family=vlm", "data.source=scenes", "model.vocab=300"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

const config::Job kJob = job_of({"vlm.tokens=[261, 260]"});

std::string refusal(const std::function<void()>& act, ErrorKind kind) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Words, OfBytesAreBytesWithAPictureAndAnEnd) {
  const Words words(job_of());
  EXPECT_FALSE(words.tokenizer());
  const Words::Ids ids = words.ids("a<image>b", "cd", 1, "it");
  EXPECT_THAT(ids.asked, ElementsAre('a', 256, 'b'));
  EXPECT_THAT(ids.answer, ElementsAre('c', 'd', 257));
  EXPECT_THAT(words.asked("a", 2, "it"), ElementsAre(256, 256, 'a'));
  EXPECT_THAT(words.asked("", 0, "it"), ElementsAre());
  // Bytes spell no token.
  EXPECT_EQ(words.ids("a", "<image>", 0, "it").answer.size(), 8u);
  EXPECT_TRUE(words.ends(257));
  EXPECT_FALSE(words.ends(256));
}

// 1. What begins a prompt, 2. pictures at their marks, 3. text as one, 4. an end.
TEST(Words, OfATokenizerAreThoseOfTheWholeText) {
  const Words words(kJob, tokenizer());
  const Words::Ids ids = words.ids("<image>a", "rgb", 1, "it");
  EXPECT_THAT(ids.asked, ElementsAre(259, 261, 'a'));
  EXPECT_THAT(ids.answer, ElementsAre(258, 260));
  EXPECT_THAT(words.asked("rgrgb", 2, "it"), ElementsAre(259, 261, 261, 257, 258));
  EXPECT_TRUE(words.ends(260));
  EXPECT_FALSE(words.ends(257));
  EXPECT_THAT(Words(kJob, tokenizer("<image>", false)).asked("a", 1, "it"), ElementsAre(261, 'a'));
  // A picture's token of another spelling: a text has <image> for it all the same.
  const Words other(kJob, tokenizer("[IMG]"));
  EXPECT_THAT(other.asked("a<image>b", 1, "it"), ElementsAre(259, 'a', 261, 'b'));
}

// "?" and "rg" are not one token "?r" and "g" where the question ends: a prompt has no answer to join with.
TEST(Words, AQuestionHasTheIdsThatItHasAlone) {
  const Words words(kJob, tokenizer());
  ASSERT_THAT(tokenizer().encode("?rx"), ElementsAre(256, 'x'));
  const Words::Ids ids = words.ids("?", "rx", 1, "it");
  EXPECT_EQ(ids.asked, words.asked("?", 1, "it"));
  EXPECT_THAT(ids.asked, ElementsAre(259, 261, '?'));
  EXPECT_THAT(ids.answer, ElementsAre('r', 'x', 260));
}

TEST(Words, AnImageTokenThatIsNoPictureIsRefused) {
  const Words words(kJob, tokenizer()), other(kJob, tokenizer("[IMG]"));
  EXPECT_EQ(refusal([&] { words.ids("a", "see <image>", 1, "3.png"); }, ErrorKind::kData),
            "3.png: the answer has the image token \"<image>\" (id 261) where no picture is; write "
            "it otherwise, and pictures of a question as <image>");
  EXPECT_THAT(refusal([&] { other.ids("a [IMG]", "b", 1, "3.png"); }, ErrorKind::kData),
              HasSubstr("3.png: the question has the image token \"[IMG]\""));
  EXPECT_EQ(refusal([&] { words.ids("<image><image>", "b", 1, "3.png"); }, ErrorKind::kData),
            "3.png: <image> in its question 2 times, for 1 pictures");
}

TEST(Words, TokensThatATokenizerDoesNotHaveAreRefused) {
  const auto refused = [](const std::vector<std::string>& sets, const text::Tokenizer& with) {
    return refusal([&] { Words(job_of(sets), with); }, ErrorKind::kUsage);
  };
  EXPECT_THAT(refused({"vlm.tokens=[257, 260]"}, tokenizer()),
              HasSubstr("vlm.tokens=[257, 260]: id 257 is no special token"));
  EXPECT_THAT(refused({"vlm.tokens=[280, 260]"}, tokenizer()), HasSubstr("is no special token"));
  EXPECT_THAT(refused({"vlm.tokens=[261, 280]"}, tokenizer()), HasSubstr("and none is 280"));
  EXPECT_THAT(refused({"model.vocab=261"}, tokenizer()),
              HasSubstr("has 262 ids, the model knows model.vocab=261"));
  EXPECT_THAT(refused({"vlm.tokens=[261, 2]"}, text::Tokenizer::bytes()),
              HasSubstr("ids below 256 are bytes"));
}

TEST(PictureTokens, AreFoundByTheirNames) {
  using Pair = std::array<std::int64_t, 2>;
  EXPECT_EQ(text::picture_tokens(tokenizer()), (Pair{261, 260}));
  EXPECT_EQ(text::picture_tokens(tokenizer("<|image_pad|>")), (Pair{261, 260}));
  EXPECT_EQ(text::picture_tokens(tokenizer("<x>")), (Pair{-1, 260}));
  EXPECT_EQ(text::picture_tokens(text::Tokenizer::bytes()), (Pair{-1, -1}));
}

}  // namespace
}  // namespace trireme::loaders::words_test
