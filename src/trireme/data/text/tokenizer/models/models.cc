#include "trireme/data/text/tokenizer/models/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/models/bpe.h"
#include "trireme/data/text/tokenizer/models/unigram.h"
#include "trireme/data/text/tokenizer/models/word_models.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

// "vocab" of a Unigram model: [text, score] by id.
const Json& scored(const Json& item, const std::string& where) {
  if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
    fail(ErrorKind::kData, "{}: {} is no [text, score]", where, formats::shown_json(item));
  return item;
}

std::unique_ptr<Model> read_unigram(const formats::JsonFields& fields, const TokenIds& ids,
                                    const std::vector<std::int32_t>& special) {
  fields.only({"type", "unk_id", "vocab", "byte_fallback"});
  UnigramRules rules;
  std::int32_t id = 0;
  for (const Json& item : fields.array("vocab")) {
    const bool matched = std::ranges::find(special, id) == special.end();
    rules.pieces.push_back(
        {.text = item[0].get<std::string>(), .score = item[1].get<double>(), .matched = matched});
    ++id;
  }
  if (fields.has("unk_id") && !fields.any("unk_id").is_null())
    rules.unknown = static_cast<std::int32_t>(fields.integer("unk_id", 0, id - 1));
  if (fields.has("byte_fallback") && fields.boolean("byte_fallback"))
    rules.byte_ids = byte_tokens(ids);
  return std::make_unique<Unigram>(std::move(rules));
}

}  // namespace

std::string model_type(const formats::JsonFields& fields) {
  const std::string type = fields.has("type") ? fields.string("type") : "BPE";
  if (type != "BPE" && type != "Unigram" && type != "WordPiece" && type != "WordLevel")
    fail(ErrorKind::kData,
         "{}: type {} is not supported; BPE, Unigram, WordPiece and WordLevel are", fields.where(),
         formats::shown(type));
  return type;
}

std::int64_t id_limit(std::size_t entries) {
  return std::min<std::int64_t>(std::numeric_limits<std::int32_t>::max() - 1,
                                static_cast<std::int64_t>(entries) + (1 << 16));
}

VocabularyEntries read_entries(const formats::JsonFields& fields, const std::string& type) {
  VocabularyEntries entries;
  if (type == "Unigram") {
    for (const Json& item : fields.array("vocab"))
      entries.emplace_back(scored(item, fields.where() + ": vocab")[0].get<std::string>(),
                           static_cast<std::int32_t>(entries.size()));
  } else {
    const Json& vocab = fields.object("vocab");
    for (const auto& item : vocab.items())
      entries.emplace_back(
          item.key(), static_cast<std::int32_t>(formats::json_integer(
                          item.value(), fields.where() + ": id of " + formats::shown(item.key()), 0,
                          id_limit(vocab.size()))));
  }
  if (entries.empty()) fail(ErrorKind::kData, "{}: vocab is empty", fields.where());
  return entries;
}

std::unique_ptr<Model> read_model(const formats::JsonFields& fields, const std::string& type,
                                  TokenIds ids, bool byte_level,
                                  const std::vector<std::int32_t>& special) {
  if (type == "BPE") return std::make_unique<Bpe>(fields, std::move(ids), byte_level);
  if (byte_level)
    fail(ErrorKind::kData, "{}: type {} after a ByteLevel pre-tokenizer is not supported; BPE is",
         fields.where(), type);
  if (type == "Unigram") return read_unigram(fields, ids, special);
  if (type == "WordPiece") return std::make_unique<WordPiece>(fields, std::move(ids));
  return std::make_unique<WordLevel>(fields, std::move(ids));
}

std::string text_or_empty(const formats::JsonFields& fields, const char* key) {
  return fields.has(key) && !fields.any(key).is_null() ? fields.string(key) : std::string();
}

std::int32_t need_token(const TokenIds& ids, const std::string& token,
                        const formats::JsonFields& fields) {
  const auto found = ids.find(token);
  if (found == ids.end())
    fail(ErrorKind::kData, "{}: unk_token {} is not in the vocabulary", fields.where(),
         formats::shown(token));
  return found->second;
}

std::vector<std::int32_t> byte_tokens(const TokenIds& ids) {
  std::vector<std::int32_t> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(fmt::format("<0x{:02X}>", byte));
    tokens.push_back(found == ids.end() ? -1 : found->second);
  }
  return tokens;
}

}  // namespace trireme::text
