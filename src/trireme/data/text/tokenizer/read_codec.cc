// read_tokenizer_json of codec.h.
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <unordered_map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/byte_level.h"
#include "trireme/data/text/tokenizer/codec.h"
#include "trireme/data/text/tokenizer/models/models.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

using formats::JsonFields;

const Json& value_or_null(const Json& json, const char* key) {
  static const Json kNull;
  return json.contains(key) ? json[key] : kNull;
}

// With the keys of every object in order.
std::string sorted_text(const Json& json) {
  if (!json.is_structured()) return json.dump();
  std::vector<std::pair<std::string, std::string>> parts;
  for (const auto& [key, value] : json.items()) parts.emplace_back(key, sorted_text(value));
  if (json.is_array()) return fmt::format("[{}]", fmt::join(parts | std::views::values, ","));
  std::ranges::sort(parts);
  std::string text;
  for (const auto& [key, value] : parts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", Json(key).dump(), value);
  return fmt::format("{{{}}}", text);
}

// Without keys that change no id.
std::string rules_of(const Json& json) {
  std::string text;
  for (const char* key : {"normalizer", "pre_tokenizer"}) {
    Json rules = value_or_null(json, key);
    if (rules.is_object()) rules.erase("trim_offsets");
    text += sorted_text(rules) + "\n";
  }
  return text;
}

const char* kind_of(const std::string& type) {
  return type == "BPE"         ? "bpe"
         : type == "Unigram"   ? "unigram"
         : type == "WordPiece" ? "wordpiece"
                               : "wordlevel";
}

void refuse_lengths(const Json& json, const std::string& what) {
  for (const char* key : {"truncation", "padding"})
    if (!value_or_null(json, key).is_null())
      fail(ErrorKind::kData,
           "{}: {} would change the length of documents, which training does not do; set it to "
           "null in the file",
           what, key);
}

// Places every entry in the table, and returns the ids by what the model matches.
TokenIds place_entries(const VocabularyEntries& entries, const std::string& type, bool byte_level,
                       const std::string& what, Codec::Parts& parts) {
  std::unordered_map<std::string_view, std::int32_t> added;
  for (const AddedToken& token : parts.added) {
    added.emplace(token.content, token.id);
    parts.tokens.place(token.id, token.content, what);
  }
  TokenIds ids;
  for (const auto& [entry, id] : entries) {
    // Files repeat their added tokens here, spelled as they are.
    const auto known = added.find(entry);
    const bool repeated = known != added.end();
    if (repeated && known->second != id)
      fail(ErrorKind::kData, "{}: {} has id {} here and {} as an added token", what,
           formats::shown(entry), id, known->second);
    if (repeated && byte_level) continue;
    std::string text = byte_level ? bytes_of_entry(entry, what) : entry;
    if (text.empty() && type == "BPE")
      fail(ErrorKind::kData, "{}: the empty string has id {}", what, id);
    ids.insert_or_assign(text, id);
    if (!repeated) parts.tokens.place(id, std::move(text), what);
  }
  return ids;
}

}  // namespace

Codec read_tokenizer_json(std::string_view text, const std::string& what) {
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  fields.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
  refuse_lengths(json, what);
  const JsonFields model(fields.object("model"), what + ": model");
  const std::string type = model_type(model);
  const VocabularyEntries entries = read_entries(model, type);

  Codec::Parts parts{.kind = kind_of(type), .rules = rules_of(json)};
  if (fields.has("added_tokens")) {
    const Json& list = fields.array("added_tokens");
    parts.added =
        read_added_tokens(list, id_limit(entries.size() + list.size()), what + ": added token");
  }
  parts.around =
      read_post_processor(value_or_null(json, "post_processor"), what + ": post_processor");
  parts.normalizers = read_normalizers(value_or_null(json, "normalizer"), what + ": normalizer");
  parts.pre_tokenizers =
      read_pre_tokenizers(value_or_null(json, "pre_tokenizer"), what + ": pre_tokenizer");
  const bool byte_level = parts.pre_tokenizers.byte_level;
  parts.needs_utf8 = !byte_level;
  parts.decoders = read_decoders(value_or_null(json, "decoder"), byte_level, what + ": decoder");

  TokenIds ids = place_entries(entries, type, byte_level, model.where(), parts);
  std::vector<std::int32_t> special;
  for (const AddedToken& token : parts.added)
    if (token.special) special.push_back(token.id);
  parts.model = read_model(model, type, std::move(ids), byte_level, special);
  for (const auto* around : {&parts.around.before, &parts.around.after})
    for (const std::int32_t id : *around)
      if (!parts.tokens.has(id))
        fail(ErrorKind::kData, "{}: post_processor: id {} belongs to no token", what, id);
  return Codec(std::move(parts));
}

}  // namespace trireme::text
