// Every part of a tokenizer.json, by small files; expected values follow from the rules of the reference.
#include "trireme/data/text/tokenizer/codec.h"

#include <functional>

#include "tests/data/text/tokenizer_files.h"
#include "tests/formats/scratch.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/data/text/tokenizer/base64.h"

namespace trireme::text::codec_test {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Spans = std::vector<TokenSpan>;

const std::string kMark = "\xE2\x96\x81";
const std::string kAccent = "e\xCC\x81", kComposed = "\xC3\xA9", kLigature = "\xEF\xAC\x81";

Tokenizer read(const Json& json) { return Tokenizer::hugging_face(json.dump(), "t"); }

// The text that a normalizer makes of `text`: a vocabulary of whole words says which of `results` it is.
void expect_normal(const Json& normalizer, const std::string& text, const std::string& result) {
  const Tokenizer tokenizer = read(tokenizer_file(word_level({result}), normalizer));
  EXPECT_EQ(tokenizer.encode(text), Ids{1}) << normalizer.dump() << " " << text;
}

TEST(Codec, Normalizers) {
  expect_normal({{"type", "NFC"}}, kAccent, kComposed);
  expect_normal({{"type", "NFD"}}, kComposed, kAccent);
  expect_normal({{"type", "NFKC"}}, kLigature, "fi");
  expect_normal({{"type", "NFKD"}}, kLigature + kComposed, "fi" + kAccent);
  expect_normal({{"type", "Lowercase"}}, "\xC3\x84\xC4\xB0", "\xC3\xA4i\xCC\x87");
  expect_normal({{"type", "StripAccents"}}, kAccent, "e");
  expect_normal({{"type", "Nmt"}},
                "a\x01"
                "b\tc",
                "ab c");
  expect_normal({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, "\xC2\xA0 a ",
                "a ");
  expect_normal({{"type", "Prepend"}, {"prepend", kMark}}, "a", kMark + "a");
  expect_normal({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}}, "a b",
                "a" + kMark + "b");
  expect_normal({{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", "_"}},
                "a\xE1\xA0\x8E \t"
                "b",
                "a\xE1\xA0\x8E_b");
  const Json bert{{"type", "BertNormalizer"},
                  {"clean_text", true},
                  {"handle_chinese_chars", true},
                  {"strip_accents", nullptr},
                  {"lowercase", true}};
  expect_normal(bert, "\xC3\x89\x01\t\xE4\xB8\xAD", "e  \xE4\xB8\xAD ");
  const Json sequence{{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}, bert}}};
  expect_normal(sequence, "A", "a");
}

// A charsmap with one entry: "a" becomes "bc". Units: root, a, its leaf.
std::string small_charsmap() {
  std::string bytes;
  const auto add = [&](std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
  };
  constexpr std::uint32_t kUnits = 128;
  add(4 * kUnits);
  for (std::uint32_t unit = 0; unit < kUnits; ++unit) {
    if (unit == 'a')
      add('a' | 1u << 8 | 1u << 10);  // has a leaf, at 'a' ^ 1
    else if (unit == ('a' ^ 1))
      add(1u << 31 | 0);  // value 0: the text at byte 0
    else
      add(0xFF);
  }
  // The root has offset 0, so that its child lies at its byte.
  for (int i = 0; i < 4; ++i) bytes[4 + i] = '\0';
  return bytes + std::string("bc\0", 3);
}

TEST(Codec, PrecompiledCharsmap) {
  const std::string map = small_charsmap();
  const auto file = [](const std::string& bytes) {
    return tokenizer_file(word_level({"bcx"}),
                          {{"type", "Precompiled"}, {"precompiled_charsmap", base64(bytes)}});
  };
  const Tokenizer tokenizer = read(file(map));
  EXPECT_EQ(tokenizer.encode("ax"), Ids{1});
  EXPECT_EQ(tokenizer.encode_spans("ax"), (Spans{{1, 0, 2}}));
  EXPECT_THAT(formats::refusal([&] { read(file(map.substr(0, 100))); }),
              HasSubstr("precompiled_charsmap: a trie of 512 bytes does not fit"));
  EXPECT_THAT(formats::refusal([&] { read(file(map.substr(0, 517))); }), HasSubstr("zero byte"));
  Json broken = file(map);
  broken["normalizer"]["precompiled_charsmap"] = "!!!!";
  EXPECT_THAT(formats::refusal([&] { read(broken); }), HasSubstr("no base64"));
}

// The words that a pre-tokenizer makes, joined by '|'.
std::string words_of(const Json& pre_tokenizer, const std::string& text,
                     const std::vector<std::string>& words) {
  const Tokenizer tokenizer = read(tokenizer_file(word_level(words), nullptr, pre_tokenizer));
  std::string out;
  for (const std::int32_t id : tokenizer.encode(text))
    out += (out.empty() ? "" : "|") + (id == 0 ? "?" : words[id - 1]);
  return out;
}

TEST(Codec, SplitBehaviors) {
  const auto split = [](const char* behavior, bool invert = false) {
    return Json{{"type", "Split"},
                {"pattern", {{"String", "-"}}},
                {"behavior", behavior},
                {"invert", invert}};
  };
  const std::vector<std::string> words = {"a", "b", "-", "--", "a-", "-b", "--b"};
  EXPECT_EQ(words_of(split("Removed"), "a--b", words), "a|b");
  EXPECT_EQ(words_of(split("Removed", true), "a--b", words), "-|-");
  EXPECT_EQ(words_of(split("Isolated"), "a--b", words), "a|-|-|b");
  EXPECT_EQ(words_of(split("MergedWithPrevious"), "a--b", words), "a-|-|b");
  EXPECT_EQ(words_of(split("MergedWithNext"), "a--b", words), "a|-|-b");
  EXPECT_EQ(words_of(split("Contiguous"), "a--b", words), "a|--|b");
  EXPECT_THAT(formats::refusal([&] { words_of(split("Joined"), "a", {}); }),
              HasSubstr("t: pre_tokenizer: behavior \"Joined\" is unknown"));
}

TEST(Codec, PreTokenizers) {
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(words_of(digits, "a12", {"a", "1", "2"}), "a|1|2");
  EXPECT_EQ(words_of({{"type", "Digits"}, {"individual_digits", false}}, "a12", {"a", "12"}),
            "a|12");
  EXPECT_EQ(words_of({{"type", "Whitespace"}}, "ab, c", {"ab", ",", "c"}), "ab|,|c");
  EXPECT_EQ(words_of({{"type", "WhitespaceSplit"}}, "ab, c", {"ab,", "c"}), "ab,|c");
  EXPECT_EQ(words_of({{"type", "BertPreTokenizer"}}, "a $b", {"a", "$", "b"}), "a|$|b");
  EXPECT_EQ(
      words_of({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "a..b", {"a", "..", "b"}),
      "a|..|b");
  EXPECT_EQ(words_of({{"type", "CharDelimiterSplit"}, {"delimiter", "_"}}, "a_b", {"a", "b"}),
            "a|b");
  const Json both{{"type", "Sequence"}, {"pretokenizers", {{{"type", "WhitespaceSplit"}}, digits}}};
  EXPECT_EQ(words_of(both, "a 1 b", {"a", "1", "b"}), "a|1|b");
}

TEST(Codec, MetaspacePrefixes) {
  const auto metaspace = [](const char* scheme, bool split = true) {
    return Json{{"type", "Metaspace"},
                {"replacement", kMark},
                {"prepend_scheme", scheme},
                {"split", split}};
  };
  const std::vector<std::string> words = {"a", kMark + "a", kMark + "b", kMark + "a" + kMark + "b"};
  EXPECT_EQ(words_of(metaspace("always"), "a b", words), kMark + "a|" + kMark + "b");
  EXPECT_EQ(words_of(metaspace("never"), "a b", words), "a|" + kMark + "b");
  EXPECT_EQ(words_of(metaspace("always", false), "a b", words), kMark + "a" + kMark + "b");
  EXPECT_EQ(words_of(metaspace("always"), " a", words), kMark + "a") << "has its prefix already";
  Json json = tokenizer_file(word_level(words), nullptr, metaspace("first"));
  json["added_tokens"] = {added(9, "<x>")};
  EXPECT_EQ(read(json).encode("a<x>a"), (Ids{2, 9, 1})) << "only at the beginning of the text";
  json["pre_tokenizer"] = metaspace("always");
  EXPECT_EQ(read(json).encode("a<x>a"), (Ids{2, 9, 2}));
  EXPECT_EQ(read(json).encode_spans("a<x>a b"), (Spans{{2, 0, 1}, {9, 1, 4}, {2, 4, 5}, {3, 5, 7}}))
      << "a prefix has the bytes of the character that it precedes";
}

TEST(Codec, AddedTokensInTheOrderOfTheReference) {
  Json json = tokenizer_file(
      word_level({"a", "xa", "ab", "xb"}),
      {{"type", "Sequence"},
       {"normalizers", {{{"type", "Lowercase"}}, {{"type", "Prepend"}, {"prepend", "x"}}}}});
  EXPECT_EQ(read(json).encode("A"), Ids{2});
  json["added_tokens"] = {added(5, "<e>"), added(6, "YES", true)};
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(read(json).encode("A<e>AB"), (Ids{1, 5, 3}));
  EXPECT_EQ(read(json).encode("A<E>"), Ids{0}) << "looked for in the raw text";
  EXPECT_EQ(read(json).encode("Ayes"), (Ids{1, 6})) << "its content is normalised too";
  json["normalizer"] = {{"type", "Prepend"}, {"prepend", "x"}};
  EXPECT_EQ(read(json).encode("a<e>a"), (Ids{2, 5, 2})) << "every part is normalised by itself";
  json["normalizer"] = nullptr;
  json["added_tokens"][0]["single_word"] = true;
  EXPECT_EQ(read(json).encode("a<e>"), Ids{0}) << "beside a letter";
  json["added_tokens"][0]["single_word"] = false;
  json["added_tokens"][0]["lstrip"] = true;
  json["added_tokens"][0]["rstrip"] = true;
  EXPECT_EQ(read(json).encode_spans("a \xC2\xA0<e>\xE3\x80\x80\nab"),
            (Spans{{1, 0, 1}, {5, 1, 11}, {3, 11, 13}}));
  const Tokenizer tokenizer = read(json);
  EXPECT_EQ(tokenizer.find_added_token("<e>"), 5);
  EXPECT_EQ(tokenizer.find_added_token("<f>"), std::nullopt);
  EXPECT_EQ(tokenizer.encode_spans("<e>", Specials::kPlainText), (Spans{{0, 0, 3}}));
}

TEST(Codec, BpeOverCharacters) {
  EXPECT_EQ(read(tokenizer_file(character_bpe(false, true))).encode("abzzb"), (Ids{3, 0, 2}));
  EXPECT_EQ(read(tokenizer_file(character_bpe(false, false))).encode("abzzb"), (Ids{3, 0, 0, 2}));
  const Tokenizer bytes = read(tokenizer_file(character_bpe(true, true)));
  EXPECT_EQ(bytes.encode("a\xC3\xA9"), (Ids{1, 10 + 0xC3, 10 + 0xA9}));
  EXPECT_EQ(bytes.encode_spans("a\xC3\xA9"), (Spans{{1, 0, 1}, {205, 1, 2}, {179, 2, 3}}));
  Json ignoring = character_bpe(false, false);
  ignoring["merges"] = Json::array();
  EXPECT_EQ(read(tokenizer_file(ignoring)).encode("ab"), (Ids{1, 2}));
  ignoring["ignore_merges"] = true;
  EXPECT_EQ(read(tokenizer_file(ignoring)).encode("ab"), Ids{3});
  Json suffixed = character_bpe(false, false);
  suffixed["end_of_word_suffix"] = "</w>";
  suffixed["vocab"]["b</w>"] = 6;
  EXPECT_EQ(read(tokenizer_file(suffixed)).encode("ab"), (Ids{1, 6}));
  Json silent = character_bpe(false, false);
  silent["unk_token"] = nullptr;
  EXPECT_THAT(formats::refusal([&] { read(tokenizer_file(silent)).encode("z"); }),
              HasSubstr("\"z\" has no token"));
  EXPECT_THAT(formats::refusal([&] { bytes.encode("a\xFF"); }), HasSubstr("not valid UTF-8"));
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(bytes.encode(text).size(), text.size()) << "a word as long as a file";
}

TEST(Codec, UnigramTakesTheBestSum) {
  Json model{{"type", "Unigram"}, {"unk_id", 0}, {"vocab", Json::array()}};
  const std::pair<const char*, int> pieces[] = {{"<unk>", 0}, {"a", -1},   {"b", -1},
                                                {"ab", -2},   {"abc", -9}, {"c", -3}};
  for (const auto& [text, score] : pieces) model["vocab"].push_back(Json::array({text, score}));
  const Tokenizer tokenizer = read(tokenizer_file(model));
  EXPECT_STREQ(tokenizer.kind(), "unigram");
  EXPECT_EQ(tokenizer.encode("ab"), Ids{3}) << "of equal sums, the earlier beginning";
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{3, 5}));
  EXPECT_EQ(tokenizer.encode_spans("axyb"), (Spans{{1, 0, 1}, {0, 1, 3}, {2, 3, 4}}));
  model["unk_id"] = nullptr;
  EXPECT_THAT(formats::refusal([&] { read(tokenizer_file(model)).encode("x"); }),
              HasSubstr("\"x\" has no token"));
  model["unk_id"] = 6;
  EXPECT_THAT(formats::refusal([&] { read(tokenizer_file(model)); }), HasSubstr("unk_id"));
  model["vocab"][1] = "a";
  EXPECT_THAT(formats::refusal([&] { read(tokenizer_file(model)); }),
              HasSubstr("t: model: vocab: \"a\" is no [text, score]"));
}

TEST(Codec, WordPieceAndItsFrame) {
  const Json model{
      {"type", "WordPiece"},
      {"unk_token", "[UNK]"},
      {"continuing_subword_prefix", "##"},
      {"max_input_chars_per_word", 5},
      {"vocab", {{"[UNK]", 0}, {"un", 1}, {"##aff", 2}, {"##a", 3}, {"a", 4}, {".", 5}}}};
  Json json = tokenizer_file(model, nullptr, {{"type", "BertPreTokenizer"}},
                             {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}});
  json["added_tokens"] = {added(6, "[CLS]"), added(7, "[SEP]")};
  json["post_processor"] = {
      {"type", "BertProcessing"}, {"sep", {"[SEP]", 7}}, {"cls", {"[CLS]", 6}}};
  const Tokenizer tokenizer = read(json);
  EXPECT_EQ(tokenizer.encode("unaff una unb aaaaaa."), (Ids{1, 2, 1, 3, 0, 0, 5}));
  EXPECT_EQ(tokenizer.decode(Ids{4, 1, 2, 5}), "a unaff.");
  Ids document;
  tokenizer.encode_document("a", document);
  EXPECT_EQ(document, (Ids{6, 4, 7}));
}

TEST(Codec, DecodersAndStreams) {
  const Json steps = {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                      {{"type", "ByteFallback"}},
                      {{"type", "Fuse"}},
                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
  const Tokenizer tokenizer = read(tokenizer_file(character_bpe(true, true), nullptr, nullptr,
                                                  {{"type", "Sequence"}, {"decoders", steps}}));
  EXPECT_EQ(tokenizer.decode(Ids{5, 5}), "a a") << "the first space goes";
  EXPECT_EQ(tokenizer.decode(Ids{10 + 0xC3, 10 + 0xA9}), kComposed);
  EXPECT_EQ(tokenizer.decode(Ids{10 + 0xC3, 10 + 0xA9, 10 + 0xFF, 1}),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "a")
      << "a run of bytes that is no UTF-8 is one replacement each";
  DecodeStream stream(tokenizer, Ids{1});
  EXPECT_EQ(stream.add(5), " a") << "not the first of the text";
  EXPECT_EQ(stream.add(10 + 0xC3), "");
  EXPECT_EQ(stream.add(10 + 0xA9), kComposed);
  EXPECT_EQ(stream.add(5), " a");
  EXPECT_EQ(stream.add(10 + 0xE2), "");
  EXPECT_EQ(stream.add(1),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(stream.add(10 + 0xE2), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  const Json metaspace{{"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "always"}};
  EXPECT_EQ(read(tokenizer_file(character_bpe(true, true), nullptr, nullptr, metaspace))
                .decode(Ids{5, 5}),
            "a a");
  EXPECT_EQ(read(tokenizer_file(character_bpe(true, true))).decode(Ids{1, 2}), "a b")
      << "without a decoder";
  const Json suffix{{"type", "BPEDecoder"}, {"suffix", "b"}};
  EXPECT_EQ(
      read(tokenizer_file(character_bpe(true, true), nullptr, nullptr, suffix)).decode(Ids{3, 3}),
      "a a");
}

TEST(Codec, SpansGoThroughNormalizers) {
  Json json = tokenizer_file(character_bpe(true, true), {{"type", "NFKC"}});
  // "ﬁ" becomes "fi"; both come from its three bytes.
  EXPECT_EQ(read(json).encode_spans("a" + kLigature + "b"),
            (Spans{{1, 0, 1}, {10 + 'f', 1, 4}, {10 + 'i', 1, 4}, {2, 4, 5}}));
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(read(json).encode_spans("a" + kAccent), (Spans{{1, 0, 1}, {205, 1, 4}, {179, 1, 4}}));
  for (const std::string text :
       {"plain", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8 \xEF\xBD\xB6\xEF\xBE\x9E"})
    for (const char* form : {"NFC", "NFD", "NFKC", "NFKD"}) {
      json["normalizer"] = {{"type", form}};
      const Tokenizer tokenizer = read(json);
      Ids ids;
      for (const TokenSpan& token : tokenizer.encode_spans(text)) ids.push_back(token.id);
      EXPECT_EQ(ids, tokenizer.encode(text)) << form << " group by group";
    }
}

}  // namespace
}  // namespace trireme::text::codec_test
