// Refusals and digests of tokenizer.json files.
#include <functional>

#include "tests/data/text/tokenizer_files.h"
#include "tests/formats/scratch.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::text::codec_rules_test {
namespace {

using ::testing::HasSubstr;

Tokenizer read(const Json& json) { return Tokenizer::hugging_face(json.dump(), "t"); }

TEST(Codec, RefusesByKey) {
  const std::pair<std::function<void(Json&)>, const char*> table[] = {
      {[](Json& j) {
         j["normalizer"] = {{"type", "Upper"}};
       },
       "t: normalizer: type \"Upper\""},
      {[](Json& j) {
         j["normalizer"] = {{"type", "NFC"}, {"deep", 1}};
       },
       "deep"},
      {[](Json& j) {
         j["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       "t: pre_tokenizer: key \"replacement\" is missing"},
      {[](Json& j) {
         j["pre_tokenizer"] = {
             {"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "x"}};
       },
       "prepend_scheme \"x\""},
      {[](Json& j) {
         j["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
       },
       "\"UnicodeScripts\""},
      {[](Json& j) {
         j["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
       },
       "type WordLevel after a ByteLevel"},
      {[](Json& j) {
         j["decoder"] = {{"type", "CTC"}};
       },
       "t: decoder: type \"CTC\""},
      {[](Json& j) {
         j["decoder"] = {{"type", "ByteLevel"}};
       },
       "without a ByteLevel"},
      {[](Json& j) {
         j["post_processor"] = {{"type", "X"}};
       },
       "t: post_processor: type \"X\""},
      {[](Json& j) { j["model"]["unk_token"] = "<u>"; }, "unk_token \"<u>\" is not in"},
      {[](Json& j) { j["model"]["vocab"] = Json::object(); }, "t: model: vocab is empty"},
      {[](Json& j) { j["model"].erase("vocab"); }, "t: model: key \"vocab\" is missing"},
      {[](Json& j) { j["model"]["dropout"] = 1; }, "dropout"},
      {[](Json& j) { j["added_tokens"] = {added(7, "a")}; }, "\"a\" has id 1 here and 7"},
      {[](Json& j) { j["extra"] = 1; }, "extra"},
  };
  for (const auto& [damage, message] : table) {
    Json json = tokenizer_file(word_level({"a"}));
    damage(json);
    EXPECT_THAT(formats::refusal([&] { read(json); }), HasSubstr(message));
  }
}

TEST(Codec, DigestsSeeEveryRule) {
  const Json plain = tokenizer_file(character_bpe(true, true));
  std::vector<std::string> digests = {read(plain).digest()};
  const std::function<void(Json&)> changes[] = {
      [](Json& j) {
        j["normalizer"] = {{"type", "NFC"}};
      },
      [](Json& j) {
        j["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
      },
      [](Json& j) { j["model"]["byte_fallback"] = false; },
      [](Json& j) { j["model"]["fuse_unk"] = false; },
      [](Json& j) { j["model"]["unk_token"] = nullptr; },
      [](Json& j) { j["model"]["end_of_word_suffix"] = "a"; },
      [](Json& j) { j["model"]["merges"].erase(0); },
      [](Json& j) { j["added_tokens"] = {added(300, "<e>")}; },
  };
  for (const auto& change : changes) {
    Json json = plain;
    change(json);
    EXPECT_THAT(digests, ::testing::Not(::testing::Contains(read(json).digest())));
    digests.push_back(read(json).digest());
  }
  Json decoded = plain;
  decoded["decoder"] = {{"type", "Fuse"}};
  EXPECT_EQ(read(decoded).digest(), digests[0]) << "decoders change no id";
  const Tokenizer again = Tokenizer::from_description(read(plain).description(), "d");
  EXPECT_EQ(again.digest(), digests[0]);
}

}  // namespace
}  // namespace trireme::text::codec_rules_test
