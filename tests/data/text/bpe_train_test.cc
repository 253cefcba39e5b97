#include "trireme/data/text/bpe_train.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/data/text/tokenizer/byte_level.h"

namespace trireme::text::bpe_train_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Merge = std::pair<std::string, std::string>;

WordCounts counted(std::string_view text) {
  WordCounts words;
  words.add(text);
  return words;
}

Tokenizer trained(const WordCounts& words, std::int32_t vocab_size) {
  return Tokenizer::hugging_face(train_bpe(words, vocab_size), "trained");
}

std::vector<std::string> learnt(std::string_view text, std::int32_t vocab_size) {
  const Tokenizer tokenizer = trained(counted(text), vocab_size);
  std::vector<std::string> out;
  for (std::int32_t id = 256; id < tokenizer.vocab_size(); ++id)
    out.push_back(tokenizer.decode(Ids{id}));
  return out;
}

std::vector<std::string> joined(const std::vector<std::string>& parts, const Merge& merge) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool both =
        i + 1 < parts.size() && parts[i] == merge.first && parts[i + 1] == merge.second;
    out.push_back(both ? parts[i] + parts[i + 1] : parts[i]);
    if (both) ++i;
  }
  return out;
}

std::vector<std::string> letters(const std::string& word) {
  std::vector<std::string> out;
  for (const char c : word) out.emplace_back(1, c);
  return out;
}

// The definition, word by word: every count anew for every merge.
std::vector<Merge> reference(const WordCounts& words, std::size_t limit) {
  std::vector<Merge> merges;
  std::vector<std::pair<std::vector<std::string>, std::int64_t>> split;
  for (const auto& [word, count] : words.counts()) split.emplace_back(letters(word), count);
  while (merges.size() < limit) {
    std::map<Merge, std::int64_t> pairs;  // in the order that breaks ties
    for (const auto& [parts, count] : split)
      for (std::size_t i = 1; i < parts.size(); ++i) pairs[{parts[i - 1], parts[i]}] += count;
    const auto best = std::max_element(pairs.begin(), pairs.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < 2) break;
    for (auto& [parts, count] : split) parts = joined(parts, best->first);
    merges.push_back(best->first);
  }
  return merges;
}

std::string random_text(std::mt19937& random, std::string_view alphabet, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

TEST(BpeTrain, MergesTheMostFrequentPairOfLowLowLower) {
  // Pieces low, " low", " lower": l-o and o-w 3 times each, " "-l twice; l comes before o.
  EXPECT_THAT(learnt("low low lower", 259), ElementsAre("lo", "low", " low"));
  EXPECT_THAT(learnt("low low lower", 257), ElementsAre("lo"));
  const Tokenizer tokenizer = trained(counted("low low lower"), 259);
  EXPECT_EQ(tokenizer.encode("low lower slow"), (Ids{257, 258, 'e', 'r', ' ', 's', 257}));
  EXPECT_STREQ(tokenizer.kind(), "bpe");
  EXPECT_EQ(tokenizer.vocab_size(), 259);
}

TEST(BpeTrain, CountsRunsExactly) {
  EXPECT_THAT(learnt("aaaa aaaa", 258), ElementsAre("aa", "aaaa"));
  EXPECT_THAT(learnt("aaa aaa aaa", 259), ElementsAre("aa", "aaa", " aaa"));
}

TEST(BpeTrain, TiesFollowBytesAndCountsAddUpOverDocuments) {
  EXPECT_THAT(learnt("\xC3\xA9;ab;\xC3\xA9;ab", 258), ElementsAre("ab", "\xC3\xA9"))
      << "unsigned bytes, and no pair over the border of pieces";
  WordCounts words;
  words.add("pq");
  words.add("pq");
  EXPECT_EQ(words.counts().at("pq"), 2);
  EXPECT_EQ(words.counts().count("pqpq"), 0U);
  EXPECT_EQ(trained(words, 257).encode("pq"), Ids{256});
}

TEST(BpeTrain, EqualsTheDefinitionOnRandomText) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 60; ++round) {
    const char* alphabet = round % 3 == 0 ? "ab" : round % 3 == 1 ? "abc " : "ab \n1;\xC3\xA9\xFF";
    WordCounts words;
    for (int document = 0; document < 20; ++document)
      words.add(random_text(random, alphabet, random() % 40));
    const std::vector<Merge> expected = reference(words, 60);
    ASSERT_FALSE(expected.empty());
    const auto size = static_cast<std::int32_t>(256 + expected.size());
    const std::string text = train_bpe(words, size);
    Json merges = Json::array();
    for (const auto& [left, right] : expected)
      merges.push_back(byte_level_spelling(left) + " " + byte_level_spelling(right));
    ASSERT_EQ(parse_json(text, "t")["model"]["merges"], merges) << "round " << round;
    const Tokenizer tokenizer = Tokenizer::hugging_face(text, "t");
    const WordCounts unseen = counted(random_text(random, alphabet, 300));
    for (const auto& [word, count] : unseen.counts()) {
      std::vector<std::string> parts = letters(word), encoded;
      for (const Merge& merge : expected) parts = joined(parts, merge);
      for (const std::int32_t id : tokenizer.encode(word))
        encoded.push_back(tokenizer.decode({&id, 1}));
      ASSERT_EQ(encoded, parts) << "round " << round;
    }
  }
}

TEST(BpeTrain, AnyBytesSurviveTheRoundTrip) {
  std::mt19937 random(3);
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  const Tokenizer tokenizer =
      trained(counted(all + " the then \xE2\x82\xAC" + all + " the then"), 400);
  EXPECT_EQ(tokenizer.encode("\x80"), Ids{0x80}) << "ids below 256 are the bytes";
  for (int round = 0; round < 200; ++round) {
    std::string text = random_text(random, all, random() % 300);
    text.insert(text.size() / 2, " the then");
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(BpeTrain, EqualTextGivesEqualBytesInAnyOrder) {
  std::mt19937 random(5);
  const std::string a = random_text(random, "abcd ", 3000), b = random_text(random, "bcde\n", 3000);
  WordCounts forward, backward;
  for (const std::string* text : {&a, &b}) forward.add(*text);
  for (const std::string* text : {&b, &a}) backward.add(*text);
  EXPECT_EQ(train_bpe(forward, 400), train_bpe(backward, 400));
}

TEST(BpeTrain, WritesWhatHuggingFaceReads) {
  const Json json = parse_json(train_bpe(counted("low \xC3\xA9 low \xC3\xA9"), 259), "t");
  const Json byte_level{{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", true}};
  EXPECT_EQ(json["version"], "1.0");
  EXPECT_EQ(json["pre_tokenizer"], byte_level);
  EXPECT_EQ(json["decoder"], byte_level);
  EXPECT_TRUE(json["normalizer"].is_null());
  EXPECT_TRUE(json["added_tokens"].empty());
  const Json& model = json["model"];
  EXPECT_EQ(model["type"], "BPE");
  EXPECT_EQ(model["vocab"].size(), 259U);
  EXPECT_EQ(model["vocab"]["!"], '!');
  EXPECT_EQ(model["vocab"]["\xC4\xA0"], ' ') << "U+0120";
  EXPECT_EQ(model["merges"], (Json{"\xC4\xA0 \xC3\x83", "\xC4\xA0\xC3\x83 \xC2\xA9", "l o"}));
}

TEST(BpeTrain, RefusesSizesThatCannotBeReached) {
  const auto reason = [](std::string_view text, std::int32_t size) {
    return formats::refusal([&] { train_bpe(counted(text), size); }, ErrorKind::kUsage);
  };
  for (const std::int32_t size : {-1, 0, 256, 1048577})
    EXPECT_THAT(reason("low low", size), HasSubstr("257 to 1048576"));
  EXPECT_THAT(reason("low low lower", 260), HasSubstr("use bpe:259 or less"));
  EXPECT_THAT(reason("low low lower", 65536), HasSubstr("use bpe:259 or less"));
  EXPECT_THAT(reason("", 257), HasSubstr("use bytes"));
  EXPECT_THAT(reason("abcdef", 257), HasSubstr("use bytes"));
}

}  // namespace
}  // namespace trireme::text::bpe_train_test
