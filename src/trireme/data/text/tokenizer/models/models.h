// Reads the model of a tokenizer.json and its vocabulary.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/data/text/tokenizer/models/model.h"
#include "trireme/formats/json_fields.h"

namespace trireme::text {

// Texts of a model's vocabulary with their ids, in the file's order.
using VocabularyEntries = std::vector<std::pair<std::string, std::int32_t>>;

// Kind of a model by its "type", which old files leave out for BPE: "BPE", "Unigram", "WordPiece" or "WordLevel".
// Anything else is Error{kData}.
std::string model_type(const formats::JsonFields& fields);

// Largest id of a vocabulary of so many entries. Gaps between ids are legal, but an id far beyond the entries would only
// allocate.
std::int64_t id_limit(std::size_t entries);

VocabularyEntries read_entries(const formats::JsonFields& fields, const std::string& type);

// `ids`: by the text of a token, or its bytes if `byte_level`. `special`: ids that no text becomes by the model.
std::unique_ptr<Model> read_model(const formats::JsonFields& fields, const std::string& type,
                                  TokenIds ids, bool byte_level,
                                  const std::vector<std::int32_t>& special);

// A text that may be missing or null.
std::string text_or_empty(const formats::JsonFields& fields, const char* key);
// Id of a token that the model names, else Error{kData}.
std::int32_t need_token(const TokenIds& ids, const std::string& token,
                        const formats::JsonFields& fields);
// The tokens <0x00> to <0xFF>; -1 where one is missing.
std::vector<std::int32_t> byte_tokens(const TokenIds& ids);

}  // namespace trireme::text
