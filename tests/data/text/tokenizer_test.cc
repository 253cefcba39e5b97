#include "trireme/data/text/tokenizer.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::text::tokenizer_test {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

// The printable spelling of a byte, worked out from the rule and not from the code under test.
std::string spelled(int byte) {
  static const std::vector<int> codes = [] {
    std::vector<int> table(256, 0);
    int next = 0x100;
    for (int b = 0; b < 256; ++b)
      table[b] = (b > 32 && b < 127) || (b > 160 && b != 173) ? b : next++;
    return table;
  }();
  const int code = codes[byte];
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

// A tokenizer.json: ids 0..255 are the bytes, then one entry per merge.
Json file_with(const std::vector<std::pair<std::string, std::string>>& merges, Json pre_tokenizer) {
  Json vocab = Json::object(), list = Json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[spelled(byte)] = byte;
  for (const auto& [left, right] : merges) {
    vocab[left + right] = vocab.size();
    list.push_back(left + " " + right);
  }
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"byte_fallback", false},
            {"vocab", vocab},
            {"merges", list}}}};
}

Json byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
}

Json added_token(int id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// "<b> text <b>", as Llama 3 has it before a text.
Json text_template(const std::string& content, int id) {
  const Json token = {{"SpecialToken", {{"id", content}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"type", "TemplateProcessing"},
          {"single", {token, text, token}},
          {"pair", Json::array()},
          {"special_tokens", {{content, {{"id", content}, {"ids", {id}}, {"tokens", {content}}}}}}};
}

const std::string kSpace = spelled(' ');

Tokenizer tokenizer_of(const Json& json) { return Tokenizer::hugging_face(json.dump(), "t"); }

TEST(Tokenizer, BytesTakeAnything) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  EXPECT_EQ(tokenizer.encode(all)[255], 255);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all)), all);
  EXPECT_THAT(formats::refusal([&] { tokenizer.decode(Ids{256}); }), HasSubstr("token 256"));
  formats::refusal([&] { tokenizer.decode(Ids{-1}); });
  formats::refusal([&] { tokenizer.added_token("<|endoftext|>"); }, ErrorKind::kUsage);
}

TEST(Tokenizer, CharsAreSortedByCodePoint) {
  const Tokenizer tokenizer = Tokenizer::chars("ba\xC3\xA9\nb\xE2\x82\xAC");
  EXPECT_EQ(tokenizer.vocab_size(), 5);
  EXPECT_EQ(tokenizer.encode("\nab\xC3\xA9\xE2\x82\xAC"), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(tokenizer.decode(Ids{4, 0}), "\xE2\x82\xAC\n");
  EXPECT_THAT(formats::refusal([&] { tokenizer.encode("c"); }),
              HasSubstr("\"c\" is not among the 5"));
  EXPECT_THAT(formats::refusal([&] { tokenizer.encode("a\xFF"); }), HasSubstr("UTF-8 at byte 1"));
  EXPECT_THAT(formats::refusal([&] { Tokenizer::chars("\xE2\x82"); }), HasSubstr("UTF-8"));
  EXPECT_THAT(formats::refusal([&] { Tokenizer::chars(""); }), HasSubstr("empty"));
}

TEST(Bpe, MergesByRankNotByPosition) {
  const Tokenizer tokenizer =
      tokenizer_of(file_with({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"bc", "bc"}}, byte_level()));
  EXPECT_EQ(tokenizer.vocab_size(), 260);
  EXPECT_EQ(tokenizer.encode("ab"), Ids{257});
  EXPECT_EQ(tokenizer.encode("abc"), Ids{258}) << "b c merges before a b";
  EXPECT_EQ(tokenizer.encode("bcbcbc"), (Ids{259, 256})) << "leftmost first among equals";
  EXPECT_EQ(tokenizer.encode("abcx"), (Ids{258, 'x'}));
  EXPECT_EQ(tokenizer.decode(Ids{258, 'x', 259}), "abcxbcbc");
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(Bpe, PiecesFollowTheByteLevelPattern) {
  // Merges across a piece boundary must not happen: "b c" merges inside a word, never over " ".
  const Tokenizer tokenizer = tokenizer_of(file_with(
      {{"b", kSpace}, {kSpace, "c"}, {kSpace, kSpace}, {"'", "s"}, {"1", "a"}}, byte_level()));
  EXPECT_EQ(tokenizer.encode("b c"), (Ids{'b', 257}));
  EXPECT_EQ(tokenizer.encode("b   c"), (Ids{'b', 258, 257}))
      << "the last space belongs to the word";
  EXPECT_EQ(tokenizer.encode("it's"), (Ids{'i', 't', 259}));
  EXPECT_EQ(tokenizer.encode("1a"), (Ids{'1', 'a'}));
  EXPECT_EQ(tokenizer.encode("b  "), (Ids{'b', 258}));
}

TEST(Bpe, PrefixSpaceSplitDigitsAndSequence) {
  Json prefix = byte_level();
  prefix["add_prefix_space"] = true;
  EXPECT_EQ(tokenizer_of(file_with({{kSpace, "c"}}, prefix)).encode("c c"), (Ids{256, 256}));
  Json plain = byte_level();
  plain["use_regex"] = false;
  const Json split{{"type", "Split"},
                   {"pattern", {{"Regex", "[^;]+|;"}}},
                   {"behavior", "Isolated"},
                   {"invert", false}};
  const Json sequence{{"type", "Sequence"}, {"pretokenizers", {split, plain}}};
  EXPECT_EQ(tokenizer_of(file_with({{"a", ";"}, {"a", kSpace}}, sequence)).encode("a ;a;"),
            (Ids{257, ';', 'a', ';'}));
  const Json digits{{"type", "Sequence"},
                    {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, plain}}};
  EXPECT_EQ(tokenizer_of(file_with({{"1", "2"}, {"a", "b"}}, digits)).encode("ab12"),
            (Ids{257, '1', '2'}));
}

TEST(Bpe, AddedTokensAreLongestFirstAndStrip) {
  Json json = file_with({{"a", "b"}}, byte_level());
  json["added_tokens"] = {added_token(257, "<e>"), added_token(258, "<e>>"),
                          added_token(260, "<s>")};
  json["added_tokens"][2]["lstrip"] = true;
  json["added_tokens"][2]["rstrip"] = true;
  const Tokenizer tokenizer = tokenizer_of(json);
  EXPECT_EQ(tokenizer.vocab_size(), 261) << "one past the largest id";
  EXPECT_EQ(tokenizer.encode("ab<e>ab<e>>"), (Ids{256, 257, 256, 258}));
  EXPECT_EQ(tokenizer.encode("ab  <s>\n<e>"), (Ids{256, 260, 257}));
  EXPECT_EQ(tokenizer.decode(Ids{257, 256}), "<e>ab");
  EXPECT_EQ(tokenizer.added_token("<s>"), 260);
  EXPECT_THAT(formats::refusal([&] { tokenizer.decode(Ids{259}); }), HasSubstr("token 259"))
      << "a gap in the ids";
}

TEST(Bpe, IgnoreMergesNormalizerAndPairMerges) {
  Json json = file_with({{"a", "b"}, {"b", "c"}}, byte_level());
  json["model"]["vocab"]["abc"] = 258;
  EXPECT_EQ(tokenizer_of(json).encode("abc"), (Ids{256, 'c'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(tokenizer_of(json).encode("abc"), (Ids{258}));
  json["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"b", "c"})});
  EXPECT_EQ(tokenizer_of(json).encode("abd"), (Ids{256, 'd'}));
  EXPECT_EQ(tokenizer_of(json).encode("e\xCC\x81"), (Ids{'e', 0xCC, 0x81}));
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(tokenizer_of(json).encode("e\xCC\x81"), (Ids{0xC3, 0xA9}));
  EXPECT_THAT(formats::refusal([&] { tokenizer_of(json).encode("\xFF"); }), HasSubstr("normalise"));
}

TEST(Bpe, AnyBytesSurviveTheRoundTrip) {
  const Tokenizer tokenizer =
      tokenizer_of(file_with({{kSpace, kSpace}, {"a", "b"}, {kSpace, "ab"}}, byte_level()));
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 300, '\0');
    for (char& c : text)
      c = round % 2 == 0 ? static_cast<char>(random()) : " ab\n\xC3\xA9"[random() % 6];
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  const std::string spaces(3 << 20, ' ');
  EXPECT_EQ(tokenizer.encode(spaces).size(), spaces.size() / 2)
      << "one long run neither fails nor crawls";
}

TEST(Tokenizer, DescriptionsRebuildTheTokenizer) {
  Json json = file_with({{"a", "b"}}, byte_level());
  json["added_tokens"] = {added_token(257, "<e>")};
  const std::string text = "ab<e>ba";
  for (const Tokenizer& tokenizer :
       {Tokenizer::bytes(), Tokenizer::chars(text), tokenizer_of(json)}) {
    const Tokenizer again = Tokenizer::from_description(tokenizer.description(), "d");
    EXPECT_STREQ(again.kind(), tokenizer.kind());
    EXPECT_EQ(again.vocab_size(), tokenizer.vocab_size());
    EXPECT_EQ(again.encode(text), tokenizer.encode(text));
    EXPECT_EQ(again.description(), tokenizer.description());
  }
  const std::pair<const char*, const char*> table[] = {
      {R"({"format":"x","version":1,"kind":"bytes"})", "format is \"x\""},
      {R"({"format":"trireme.tokenizer","version":2,"kind":"bytes"})",
       "version 2, this build reads version 1"},
      {R"({"format":"trireme.tokenizer","version":1,"kind":"words"})", "kind \"words\""},
      {R"({"format":"trireme.tokenizer","version":1,"kind":"characters","characters":"ba"})",
       "code-point order"},
      {R"({"format":"trireme.tokenizer","version":1,"kind":"characters","characters":"aa"})",
       "each once"},
      {R"({"format":"trireme.tokenizer","version":1,"kind":"characters"})",
       "\"characters\" is missing"},
      {R"({"format":"trireme.tokenizer","version":1,"kind":"bpe","source":"{"})", "not valid JSON"},
      {R"([])", "an object is needed"},
  };
  for (const auto& [description, message] : table)
    EXPECT_THAT(formats::refusal([&, d = description] { Tokenizer::from_description(d, "d"); }),
                HasSubstr(message));
}

TEST(Bpe, RefusesWhatItCannotHonourByName) {
  const std::pair<std::function<void(Json&)>, const char*> table[] = {
      {[](Json& j) { j["model"]["type"] = "Unigrams"; }, "type \"Unigrams\""},
      {[](Json& j) { j["model"]["dropout"] = 0.1; }, "dropout"},
      {[](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"Regex", "("}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
       },
       "does not compile"},
      {[](Json& j) { j["model"]["vocab"].erase("a"); }, "byte 97 has no token"},
      {[](Json& j) { j["model"]["vocab"]["a"] = -1; }, "is -1"},
      {[](Json& j) { j["model"]["vocab"]["a"] = 2000000000; }, "is 2000000000"},
      {[](Json& j) { j["model"]["vocab"]["a"] = "1"; }, "whole number"},
      {[](Json& j) { j["model"]["vocab"]["zz"] = 5; }, "id 5 belongs to"},
      {[](Json& j) { j["model"]["vocab"]["\xE2\x82\xAC"] = 300; }, "not spelled in byte-level"},
      {[](Json& j) { j["model"]["vocab"][""] = 300; }, "the empty string"},
      {[](Json& j) { j["model"]["merges"].push_back("ab"); }, "merge 1: \"ab\""},
      {[](Json& j) { j["model"]["merges"].push_back("a b c"); }, "a space between"},
      {[](Json& j) { j["model"]["merges"].push_back("x y"); }, "\"xy\" is not in the vocabulary"},
      {[](Json& j) { j["model"]["merges"].push_back(7); }, "neither"},
      {[](Json& j) { j["model"].erase("merges"); }, "\"merges\" is missing"},
      {[](Json& j) { j.erase("model"); }, "\"model\" is missing"},
      {[](Json& j) { j["added_tokens"].push_back(added_token(257, "")); }, "is empty"},
      {[](Json& j) { j["added_tokens"].push_back(added_token(97, "<e>")); }, "id 97 belongs to"},
      {[](Json& j) { j["added_tokens"].push_back(added_token(1000000, "<e>")); }, "is 1000000"},
      {[](Json& j) {
         j["truncation"] = {{"max_length", 512}};
       },
       "truncation would change the length"},
      {[](Json& j) {
         j["padding"] = {{"strategy", "BatchLongest"}};
       },
       "padding would change the length"},
      {[](Json& j) { j["post_processor"] = text_template("<e>", 999); },
       "id 999 belongs to no token"},
  };
  for (const auto& [damage, message] : table) {
    Json json = file_with({{"a", "b"}}, byte_level());
    damage(json);
    EXPECT_THAT(formats::refusal([&] { tokenizer_of(json); }), HasSubstr(message));
  }
}

TEST(Bpe, PutsATemplateAroundADocument) {
  Json json = file_with({{"a", "b"}}, byte_level());
  json["added_tokens"] = {added_token(257, "<b>")};
  json["post_processor"] = {{"type", "Sequence"},
                            {"processors", {byte_level(), text_template("<b>", 257)}}};
  const Tokenizer tokenizer = tokenizer_of(json);
  Ids document;
  tokenizer.encode_document("ab", document);
  EXPECT_EQ(document, (Ids{257, 256, 257}));
  EXPECT_EQ(tokenizer.encode_prompt("ab"), (Ids{257, 256}));
  EXPECT_EQ(tokenizer.encode("ab"), Ids{256});
}

TEST(Tokenizer, DigestsAreOfTheVocabularyNotOfItsSpelling) {
  Json json = file_with({{"a", "b"}}, byte_level());
  const std::string digest = tokenizer_of(json).digest();
  const Tokenizer spaced = Tokenizer::hugging_face(json.dump(4), "t");
  EXPECT_EQ(spaced.digest(), digest);
  EXPECT_EQ(Tokenizer::from_description(spaced.description(), "d").digest(), digest);
  EXPECT_EQ(tokenizer_of(json).with_ends({97}).digest(), digest);
  Json pairs = json;
  pairs["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_EQ(tokenizer_of(pairs).digest(), digest);

  std::set<std::string> all = {digest, Tokenizer::bytes().digest(), Tokenizer::chars("ab").digest(),
                               Tokenizer::chars("ac").digest()};
  Json other = json;
  other["normalizer"] = {{"type", "NFC"}};
  all.insert(tokenizer_of(other).digest());
  other = json;
  other["added_tokens"] = {added_token(257, "<b>")};
  all.insert(tokenizer_of(other).digest());
  all.insert(tokenizer_of(file_with({{"a", "c"}}, byte_level())).digest());
  EXPECT_EQ(all.size(), 7u);
}

TEST(Tokenizer, IsExported) {
  const Tokenizer bytes = Tokenizer::hugging_face(Tokenizer::bytes().tokenizer_json(), "t");
  EXPECT_EQ(bytes.digest(), Tokenizer::bytes().digest());
  const std::string text = "\x01 any b\xff\xfetes";
  EXPECT_EQ(bytes.encode(text), Tokenizer::bytes().encode(text));
  EXPECT_THAT(formats::refusal([] { Tokenizer::chars("ab").tokenizer_json(); }, ErrorKind::kUsage),
              HasSubstr("no tokenizer.json"));
}

TEST(Tokenizer, KnowsTheEndOfAText) {
  const Tokenizer ends = Tokenizer::bytes().with_ends({10});
  EXPECT_EQ(Tokenizer::from_description(ends.description(), "d").ends(), Ids{10});
  EXPECT_THAT(formats::refusal([] { Tokenizer::bytes().with_ends({256}); }),
              HasSubstr("token 256"));
}

// A run, its checkpoints, a dataset and a Hugging Face directory all have their vocabulary.
TEST(Vocabulary, IsFoundWhereItLies) {
  const formats::Scratch scratch;
  scratch.write("run/vocabulary.json", Tokenizer::chars("abc").description());
  scratch.write("run/checkpoints/step-5/manifest.json", "");
  scratch.write("cut/vocabulary.json", Tokenizer::chars("abc").description());
  scratch.write("cut/step-5/manifest.json", "");
  for (const char* path :
       {"run", "run/checkpoints", "run/checkpoints/step-5", "cut/step-5", "run/vocabulary.json"})
    EXPECT_EQ(read_vocabulary(scratch / path).vocab_size(), 3) << path;
  Json json = file_with({{"a", "b"}}, byte_level());
  json["added_tokens"] = {added_token(257, "<e>"), added_token(258, "<f>")};
  scratch.write("hf/tokenizer.json", json.dump());
  EXPECT_TRUE(read_vocabulary(scratch / "hf").ends().empty());
  scratch.write("hf/config.json", R"({"eos_token_id": 257})");
  EXPECT_EQ(read_vocabulary(scratch / "hf/tokenizer.json").ends(), Ids{257});
  scratch.write("hf/generation_config.json", R"({"eos_token_id": [258, 257]})");
  EXPECT_EQ(read_vocabulary(scratch / "hf").ends(), (Ids{258, 257}));
  scratch.write("bare/step-5/manifest.json", "");
  for (const char* path : {"bare/step-5", "bare", "nothing"})
    EXPECT_THAT(formats::refusal([&] { read_vocabulary(scratch / path); }, ErrorKind::kUsage),
                HasSubstr(path));
}

TEST(Bpe, SurvivesDamage) {
  Json json = file_with({{"a", "b"}}, byte_level());
  json["added_tokens"] = {added_token(257, "<e>")};
  formats::mutate(json.dump(), 400, [](const std::string& bad) {
    Tokenizer::hugging_face(bad, "t").encode("ab <e>");
  });
}

}  // namespace
}  // namespace trireme::text::tokenizer_test
