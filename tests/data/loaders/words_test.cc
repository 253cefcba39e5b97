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

std::string text_of(const text::Tokenizer& tokenizer, const Ids& ids) {
  return tokenizer.decode(std::vector<std::int32_t>(ids.begin(), ids.end()));
}

// Special tokens as Qwen's, after 256 bytes; no text begins with one.
text::Tokenizer qwen() {
  text::ByteLevelBpe bpe{.special = {"<|im_start|>", "<|im_end|>", "<|vision_start|>",
                                     "<|image_pad|>", "<|vision_end|>"}};
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.emplace_back(1, static_cast<char>(byte));
  return text::Tokenizer::hugging_face(text::print_tokenizer_json(bpe), "q").with_ends({257});
}

// Pictures before a question have a template's own marks and space; at marks of the question they have the marks alone.
TEST(Words, OfAChatTemplateHaveItsTurnsAndLossOnTheAnswer) {
  const text::Tokenizer vicuna = tokenizer();
  const Words llava(job_of({"vlm.tokens=[261, 260]", "data.chat=llava"}), vicuna);
  const Words::Ids ids = llava.ids("What?", "Cat", 1, "it");
  EXPECT_EQ(text_of(vicuna, ids.asked), "<s>USER: <image>\nWhat? ASSISTANT:");
  EXPECT_EQ(text_of(vicuna, ids.answer), " Cat</s>");
  EXPECT_EQ(ids.asked, llava.asked("What?", 1, "it"));
  EXPECT_EQ(text_of(vicuna, llava.asked("a<image> <image>b", 2, "it")),
            "<s>USER: a<image> <image>b ASSISTANT:");
  EXPECT_EQ(text_of(vicuna, llava.asked("a", 0, "it")), "<s>USER: a ASSISTANT:");
  const Words mistral(job_of({"vlm.tokens=[261, 260]", "data.chat=llava_mistral"}), vicuna);
  EXPECT_EQ(text_of(vicuna, mistral.asked("What?", 1, "it")), "<s>[INST] <image>\nWhat? [/INST]");
  EXPECT_EQ(text_of(vicuna, mistral.ids("What?", "Cat", 1, "it").answer), " Cat</s>")
      << "nothing follows the end";

  const Words words(job_of({"vlm.tokens=[259, 257]", "data.chat=qwen3_vl"}), qwen());
  const std::string begin = "<|im_start|>user\n", end = "<|im_end|>\n<|im_start|>assistant\n",
                    picture = "<|vision_start|><|image_pad|><|vision_end|>";
  const Words::Ids seen = words.ids("What?", "Cat", 1, "it");
  EXPECT_EQ(text_of(qwen(), seen.asked), begin + picture + "What?" + end);
  EXPECT_EQ(text_of(qwen(), seen.answer), "Cat<|im_end|>");
  EXPECT_EQ(text_of(qwen(), words.asked("a<image>b", 1, "it")), begin + "a" + picture + "b" + end);
  EXPECT_TRUE(words.ends(257));
}

// An answer that would join with what is before it has the ids that it has alone.
TEST(Words, OfAChatTemplateHaveTheIdsOfThePrompt) {
  text::ByteLevelBpe bpe{.merges = {{'\n', '\n'}},
                         .special = {"<|im_start|>", "<|im_end|>", "<|image_pad|>"}};
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.emplace_back(1, static_cast<char>(byte));
  bpe.tokens.emplace_back("\n\n");
  Json json = Json::parse(text::print_tokenizer_json(bpe));
  json["pre_tokenizer"]["use_regex"] = false;
  const Words words(job_of({"vlm.tokens=[259, 258]", "data.chat=chatml"}),
                    text::Tokenizer::hugging_face(json.dump(), "t").with_ends({258}));
  const Words::Ids ids = words.ids("a", "\nb", 1, "it");
  EXPECT_EQ(ids.asked, words.asked("a", 1, "it"));
  EXPECT_THAT(ids.answer, ElementsAre('\n', 'b', 258));
}

TEST(Words, OfATemplateThatCannotBeAreRefused) {
  const auto refused = [](const char* chat, const text::Tokenizer& with, const char* tokens) {
    return refusal(
        [&] {
          Words(job_of({std::string("data.chat=") + chat, tokens}), with);
        },
        ErrorKind::kUsage);
  };
  const char* own = "vlm.tokens=[261, 260]";
  EXPECT_THAT(refused("mistral_v3", tokenizer(), own), HasSubstr("use llava_mistral"));
  EXPECT_THAT(refused("llava long=cut", tokenizer(), own), HasSubstr("options of conversations"));
  EXPECT_THAT(refused("lava", tokenizer(), own), HasSubstr("is not known; choose one of chatml"));
  EXPECT_THAT(refused("llava", qwen(), "vlm.tokens=[259, 257]"),
              HasSubstr("data.chat=llava does not end an answer with id 257"));
  const Words words(job_of({own, "data.chat=llava"}), tokenizer());
  EXPECT_THAT(refusal([&] { words.ids("a", "see <image>", 1, "3.png"); }, ErrorKind::kData),
              HasSubstr("3.png: the answer has the image token"));
  EXPECT_THAT(refusal([&] { words.ids("a", "b</s> c", 1, "3.png"); }, ErrorKind::kData),
              HasSubstr("3.png: the answer has the token \"</s>\" (id 260), with which"));
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
