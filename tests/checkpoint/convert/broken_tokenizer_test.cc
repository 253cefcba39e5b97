// Tokenizers and chat templates of published directories, broken: each refusal names the file and the key.
#include "tests/checkpoint/convert/broken.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::convert::broken_tokenizer_test {
namespace {

constexpr const char *kPieces = "tokenizer.model", *kJinja = "chat_template.jinja";

Files good(const std::string& type) {
  if (type != "pieces") return published(type);
  Files files = published("llama");
  files.erase(kTokenizer);
  const std::string mark = "\xE2\x96\x81";
  files[kPieces] = text::piece_model(text::proto_piece(mark, -5, 1) + text::proto_piece("a", -4, 1),
                                     {.model_type = 2});
  files[kGeneration] = R"({"eos_token_id": 2})";
  return files;
}

Damage in_tokenizer(const char* at, const Json& value) { return set(kTokenizer, at, value); }
Damage added_token(std::int64_t id, const std::string& content) {
  return edit(kTokenizer, [=](Json& json) {
    json["added_tokens"].push_back(text::added(static_cast<std::int32_t>(id), content));
  });
}

TEST(BrokenTokenizer, Json) {
  const Broken cases[] = {
      {"empty", "llama", put(kTokenizer, ""), {kTokenizer, "not valid JSON", "empty"}},
      {"cut", "llama", cut(kTokenizer, 20), {kTokenizer, "not valid JSON"}},
      {"a pointer",
       "llama",
       put(kTokenizer, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
       {kTokenizer, "Git LFS pointer"}},
      {"no model", "llama", remove(kTokenizer, "model"), {kTokenizer, "\"model\"", "missing"}},
      {"no vocabulary",
       "llama",
       edit(kTokenizer, [](Json& json) { json["model"].erase("vocab"); }),
       {kTokenizer, "\"vocab\"", "missing"}},
      {"vocabulary is empty",
       "qwen2",
       in_tokenizer("/model/vocab", Json::object()),
       {kTokenizer, "vocab is empty"}},
      {"vocabulary is a list",
       "llama",
       in_tokenizer("/model/vocab", {"a", "b"}),
       {kTokenizer, "vocab", "an object"}},
      {"unknown kind",
       "llama",
       in_tokenizer("/model/type", "Neural"),
       {kTokenizer, "model", "Neural", "BPE"}},
  };
  expect_refusals(cases, good);
}

TEST(BrokenTokenizer, MergesAndIds) {
  const Broken cases[] = {
      {"no merges",
       "llama",
       edit(kTokenizer, [](Json& json) { json["model"].erase("merges"); }),
       {kTokenizer, "\"merges\""}},
      {"merge of an unknown token",
       "llama",
       in_tokenizer("/model/merges/-", "a zz"),
       {kTokenizer, "merge 1", "\"azz\"", "not in the vocabulary"}},
      {"merge into an unknown token",
       "llama",
       in_tokenizer("/model/merges/-", "b a"),
       {kTokenizer, "merge 1", "\"ba\""}},
      {"merge of one",
       "llama",
       in_tokenizer("/model/merges/-", "ab"),
       {kTokenizer, "merge 1", "\"ab\""}},
      {"a byte is missing",
       "llama",
       edit(kTokenizer, [](Json& json) { json["model"]["vocab"].erase("z"); }),
       {kTokenizer, "byte 122"}},
      {"id is text",
       "llama",
       in_tokenizer("/model/vocab/ab", "256"),
       {kTokenizer, "\"ab\"", "whole number"}},
      {"id is negative",
       "llama",
       in_tokenizer("/model/vocab/ab", -1),
       {kTokenizer, "\"ab\"", "-1"}},
      {"id is huge",
       "llama",
       in_tokenizer("/model/vocab/ab", 2000000000),
       {kTokenizer, "\"ab\"", "2000000000"}},
      {"id of two tokens",
       "llama",
       in_tokenizer("/model/vocab/ab", 97),
       {kTokenizer, "id 97", "\"a\"", "\"ab\""}},
      {"ids beyond the model",
       "llama",
       in_tokenizer("/model/vocab/ab", 300),
       {kTokenizer, "\"ab\"", "300", "vocab_size", "260"}},
      {"fewer rows than ids",
       "mistral",
       set(kConfig, "/vocab_size", 200),
       {kModel, "model.embed_tokens.weight", "[260, 16]", "[200, 16]"}},
  };
  expect_refusals(cases, good);
}

TEST(BrokenTokenizer, Steps) {
  const Json split{{"type", "Split"},
                   {"pattern", {{"Regex", "(a"}}},
                   {"behavior", "Isolated"},
                   {"invert", false}};
  const Broken cases[] = {
      {"regex",
       "llama",
       in_tokenizer("/pre_tokenizer", split),
       {kTokenizer, "pre_tokenizer", "(a", "compile"}},
      {"normalizer",
       "llama",
       in_tokenizer("/normalizer", {{"type", "Rot13"}}),
       {kTokenizer, "normalizer", "Rot13", "NFC"}},
      {"normalizer is text",
       "llama",
       in_tokenizer("/normalizer", "NFC"),
       {kTokenizer, "normalizer", "NFC"}},
      {"pre-tokenizer",
       "llama",
       in_tokenizer("/pre_tokenizer", {{"type", "Words"}}),
       {kTokenizer, "pre_tokenizer", "Words", "ByteLevel"}},
      {"decoder",
       "llama",
       in_tokenizer("/decoder", {{"type", "Undo"}}),
       {kTokenizer, "decoder", "Undo"}},
      {"post-processor",
       "llama",
       in_tokenizer("/post_processor", {{"type", "Wrap"}}),
       {kTokenizer, "post_processor", "Wrap"}},
      {"truncation",
       "llama",
       in_tokenizer("/truncation", {{"max_length", 5}}),
       {kTokenizer, "truncation", "null"}},
      {"unknown part", "llama", in_tokenizer("/postscript", 1), {kTokenizer, "postscript"}},
  };
  expect_refusals(cases, good);
}

TEST(BrokenTokenizer, AddedTokens) {
  const Broken cases[] = {
      {"added token without content",
       "llama",
       edit(kTokenizer, [](Json& json) { json["added_tokens"][0].erase("content"); }),
       {kTokenizer, "added token", "\"content\""}},
      {"added token of another's id",
       "llama",
       added_token(97, "<x>"),
       {kTokenizer, "id 97", "<x>", "\"a\""}},
      {"added token twice",
       "llama",
       added_token(258, "<x>"),
       {kTokenizer, "id 258", "<x>", "<|im_end|>"}},
      {"added token of two ids",
       "llama",
       added_token(259, "ab"),
       {kTokenizer, "\"ab\"", "256", "259"}},
      {"added token beyond the model",
       "gemma3_text",
       added_token(260, "<image>"),
       {kTokenizer, "<image>", "260", "vocab_size"}},
      {"unknown token that is not there",
       "llama",
       put(kTokenizer, text::tokenizer_file(
                           {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "<unk>"}})
                           .dump()),
       {kTokenizer, "<unk>", "not in the vocabulary"}},
  };
  expect_refusals(cases, good);
}

TEST(BrokenTokenizer, SentencePiece) {
  const Broken cases[] = {
      {"cut", "pieces", cut(kPieces, 3), {kPieces, "ends inside a field"}},
      {"empty", "pieces", put(kPieces, ""), {kPieces, "0"}},
      {"a pointer",
       "pieces",
       put(kPieces, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
       {kPieces, "Git LFS pointer"}},
      {"no unknown piece",
       "pieces",
       put(kPieces, text::proto_piece("a", -1, 1)),
       {kPieces, "unknown", "one is needed"}},
      {"a piece twice",
       "pieces",
       put(kPieces, text::piece_model(text::proto_piece("a", -1, 1) + text::proto_piece("a", -2, 1),
                                      {.model_type = 2})),
       {kPieces, "\"a\"", "twice"}},
      {"words",
       "pieces",
       put(kPieces, text::piece_model(text::proto_piece("a", -1, 1), {.model_type = 3})),
       {kPieces, "model_type 3", "1 (unigram)"}},
  };
  expect_refusals(cases, good);
}

TEST(BrokenTokenizer, EndsAndTemplates) {
  const Broken cases[] = {
      {"generation is no JSON", "llama", put(kGeneration, "{,}"), {kGeneration, "not valid JSON"}},
      {"generation is a list", "llama", put(kGeneration, "[]"), {kGeneration, "an object"}},
      {"end beyond the vocabulary",
       "llama",
       put(kGeneration, R"({"eos_token_id": [258, 999]})"),
       {kGeneration, "eos_token_id", "999"}},
      {"end is text",
       "llama",
       put(kGeneration, R"({"eos_token_id": "</s>"})"),
       {kGeneration, "eos_token_id", "</s>"}},
      {"settings are no JSON",
       "llama",
       put(kTokenizerConfig, "{"),
       {kTokenizerConfig, "not valid JSON"}},
      {"settings without template",
       "llama",
       put(kTokenizerConfig, "{}"),
       {kTokenizerConfig, "chat_template", "chatml"}},
      {"no settings",
       "llama",
       drop(kTokenizerConfig),
       {kTokenizerConfig, "chat_template", "chatml"}},
      {"template is a number",
       "llama",
       put(kTokenizerConfig, R"({"chat_template": 5})"),
       {kTokenizerConfig, "chat_template", "5"}},
      {"template is unknown",
       "llama",
       put(kTokenizerConfig, R"({"chat_template": "{{ messages }}"})"),
       {kTokenizerConfig, "chat_template", "chatml"}},
      {"file of a template is unknown", "llama", put(kJinja, "{{ messages }}"), {kJinja, "chatml"}},
      {"no default among templates",
       "llama",
       put(kTokenizerConfig, R"({"chat_template": [{"name": "rag", "template": "x"}]})"),
       {kTokenizerConfig, "chat_template", "default"}},
      {"templates without names",
       "llama",
       put(kTokenizerConfig, R"({"chat_template": [{"template": "x"}]})"),
       {kTokenizerConfig, "chat_template", "\"name\""}},
  };
  expect_refusals(cases, good);
}

// As Gemma 3's models of text have a token for images after the last row.
TEST(BrokenTokenizer, GemmasImageTokenHasNoRowAndIsLeftOut) {
  const formats::Scratch scratch;
  Files files = published("gemma3_text");
  const Json before = Json::parse(files[kTokenizer]);
  added_token(260, "<image_soft_token>")(files);
  const Path from = scratch / "gemma";
  write(files, from);
  EXPECT_EQ(refusal_of(from, scratch / "out"), "");
  const text::Tokenizer read = text::read_vocabulary(from);
  const text::Tokenizer plain = text::Tokenizer::hugging_face(before.dump(), "plain");
  EXPECT_EQ(read.vocab_size(), plain.vocab_size());
  EXPECT_GT(read.encode("<image_soft_token>").size(), 1U);  // text like any other
  EXPECT_EQ(read.digest(), plain.with_ends(read.ends()).digest());
}

// GPT2Config writes 50256 whatever the vocabulary is.
TEST(BrokenTokenizer, EndsOfAConfigBeyondTheVocabularyAreNone) {
  const formats::Scratch scratch;
  Files files = published("gpt2");
  files.erase(kGeneration);
  set(kConfig, "/eos_token_id", 50256)(files);
  write(files, scratch / "gpt2");
  EXPECT_EQ(refusal_of(scratch / "gpt2", scratch / "out"), "");
  EXPECT_TRUE(text::read_vocabulary(scratch / "gpt2").ends().empty());
}

}  // namespace
}  // namespace trireme::convert::broken_tokenizer_test
