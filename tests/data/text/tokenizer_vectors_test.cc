// Ids of real vocabularies against stored ids of the reference, where both are at hand.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "tests/harness/needs.h"
#include "trireme/base/json.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::text::tokenizer_vectors_test {
namespace {

Path beside(const std::string& name) {
  return Path(TRIREME_SOURCE_DIR).parent_path() / "shared" / "data" / "tokenizers" / name;
}

TEST(TokenizerVectors, SentencePieceModelsEqualTheReference) {
  const Path vectors = beside("tokenizer_vectors.json");
  TRIREME_NEEDS("real files", std::filesystem::exists(vectors)
                                  ? std::string()
                                  : std::string("tokenizers is not in ../shared/data, beside the "
                                                "repository"));
  const Json json = parse_json(read_file(vectors), vectors.string());
  const std::pair<const char*, const char*> models[] = {
      {"mistral_v1_sp", "tokenizer.model.v1"},
      {"mistral_v3_sp", "mistral_instruct_tokenizer_240323.model.v3"},
      {"sp_unigram_test_en", "test_model.model"},
      {"sp_unigram_test_ja", "test_ja_model.model"}};
  for (const auto& [name, file] : models) {
    const Tokenizer tokenizer = read_vocabulary(beside(file));
    const Json& texts = json["texts"];
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string text = texts[i].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text), json["ids"][name][i].get<std::vector<std::int32_t>>())
          << name << " " << texts[i].dump();
      std::vector<std::int32_t> ids;
      for (const TokenSpan& token : tokenizer.encode_spans(text)) {
        EXPECT_LE(token.begin, token.end);
        EXPECT_LE(token.end, text.size());
        ids.push_back(token.id);
      }
      EXPECT_EQ(ids, tokenizer.encode(text));
    }
  }
}

}  // namespace
}  // namespace trireme::text::tokenizer_vectors_test
