// A dataset directory: train and val token files, the tokenizer, and dataset.json that binds them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/data/text/sources.h"
#include "trireme/data/text/token_file.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::text {

// One split. `text_bytes` is the size of the raw text of the tokens, so that bits per byte = nats per token / ln 2 *
// tokens / text_bytes.
struct SplitInfo {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;
};

// An opened dataset; `digest` names its whole content (16 hex digits).
struct Dataset {
  Path directory;
  std::string digest;
  Tokenizer tokenizer;
  SplitInfo train_info;
  SplitInfo val_info;
  TokenFile train;
  TokenFile val;
  // Of conversations: 1 for each token that has loss, 0 for the others.
  std::optional<TokenFile> train_loss{};
  std::optional<TokenFile> val_loss{};
};

// Opens a dataset and checks dataset.json, the sizes of all files, the vocabulary's digest and the indices.
// Token values are not read. Throws Error{kData} naming the file.
Dataset open_dataset(const Path& directory);

// open_dataset, and then every byte: the digests of all files and that each token is below the vocabulary
// size. Throws Error{kData} naming the file.
Dataset verify_dataset(const Path& directory);

// How validation text is held out.
struct ValidationRule {
  // kDocuments: the files whose name hashes into the fraction, or `count` files with the lowest hashes; kTail: the end of
  // the concatenated text.
  enum class By { kDocuments, kTail } by = By::kDocuments;
  double fraction = 0.05;  // 0: no validation split
  std::int64_t count = 0;  // of kDocuments: instead of the fraction, where it is not 0
};

// Reads "documents:0.05", "documents:20" or "tail:0.1"; a fraction lies in (0, 1). Throws Error{kUsage}.
ValidationRule parse_validation(std::string_view text);

// A user's choice of tokenizer.
struct TokenizerChoice {
  enum class By { kBytes, kCharacters, kTrained, kFile } by = By::kBytes;
  std::int32_t vocab_size = 0;         // of kTrained
  Path file{};                         // of kFile: what read_vocabulary reads
  std::vector<std::string> special{};  // of kTrained: added tokens, counted in vocab_size
};

// Reads "bytes", "characters", "bpe:N" or a path that has a vocabulary (vocabulary.h). A wrong N is Error{kUsage}.
TokenizerChoice parse_tokenizer(std::string_view text);

struct PrepareProgress {
  std::int64_t files_done = 0;
  std::int64_t files = 0;
  std::int64_t bytes_done = 0;
  std::int64_t bytes = 0;
};

struct PrepareOptions {
  std::vector<SourceFile> sources;  // one document each; empty files are skipped
  Path out;
  TokenizerChoice tokenizer{};  // kTrained learns from the training split only
  ValidationRule validation{};
  std::string end_of_document{};  // an added token put after each document; empty: none
  bool binary = false;            // files need not be text
  bool force = false;             // replace another dataset at `out`
  std::function<void(const PrepareProgress&)> progress{};
};

// Tokenizes the sources into `out`, which appears complete or not at all; equal sources and options give
// equal bytes. When `out` already holds the very same dataset it is left as it is. Another one is replaced
// only with `force`, and what is not a dataset never: Error{kUsage}. Unreadable or empty text, files that are no text, or a split
// that leaves nothing for training or validation, is Error{kData}.
Dataset prepare_dataset(const PrepareOptions& options);

}  // namespace trireme::text
