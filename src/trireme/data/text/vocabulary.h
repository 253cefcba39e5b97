// Where vocabularies lie: files of tokenizers, and the directories that have one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::text {

inline constexpr char kVocabularyName[] = "vocabulary.json";    // a Tokenizer's description
inline constexpr char kTokenizerJsonName[] = "tokenizer.json";  // Hugging Face's
inline constexpr char kSentencePieceName[] = "tokenizer.model";

// The vocabulary file of `path`: the path itself if it is a file, else a file in a run, dataset or Hugging Face
// directory. A checkpoint has that of its run, the directory above it. Nothing if there is none.
std::optional<Path> find_vocabulary(const Path& path);

// Reads the vocabulary of `path`: a description, a tokenizer.json or a SentencePiece model. The end of a text is also read
// from generation_config.json or config.json in its directory. Throws Error{kUsage} without a vocabulary, Error{kData} for a malformed file.
Tokenizer read_vocabulary(const Path& path);

// Ids of a picture's place in a text, of the added tokens <image>, <|image_pad|>, <image_soft_token> and [IMG] the first
// that there is, and of the end of a text; -1: there is none.
std::array<std::int64_t, 2> picture_tokens(const Tokenizer& tokenizer);

// Text of the added token with this id; none: there is no such token.
std::optional<std::string> added_text(const Tokenizer& tokenizer, std::int64_t id);

}  // namespace trireme::text
