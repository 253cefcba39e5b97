// Where vocabularies lie: files of tokenizers, and the directories that have one.
#pragma once

#include <optional>

#include "trireme/base/fs.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::text {

inline constexpr char kVocabularyName[] = "vocabulary.json";    // a Tokenizer's description
inline constexpr char kTokenizerJsonName[] = "tokenizer.json";  // Hugging Face's

// The file of the vocabulary that `path` has: a file is one; a run, dataset or Hugging Face directory holds one; a
// checkpoint has that of its run, which lies above it. Nothing where there is none.
std::optional<Path> find_vocabulary(const Path& path);

// Reads the vocabulary that `path` has; beside a tokenizer.json what generation_config.json or config.json say of the
// end of a text is read as well. Throws Error{kUsage} where there is none, Error{kData} for a file that is none.
Tokenizer read_vocabulary(const Path& path);

}  // namespace trireme::text
