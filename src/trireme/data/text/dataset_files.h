// Contents of dataset.json; shared by the code that writes datasets and the code that opens them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/text/dataset.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/formats/digest.h"

namespace trireme::text {

inline constexpr char kDatasetName[] = "dataset.json";
// Of every data set the first kTextFiles; of conversations also which tokens have loss, the first kChatFiles; of answers
// with rewards also their numbers.
inline constexpr const char* kDatasetFiles[] = {
    "train.bin",     "train.idx",          "val.bin",         "val.idx",
    kVocabularyName, "train_loss.bin",     "train_loss.idx",  "val_loss.bin",
    "val_loss.idx",  "train_rollouts.f64", "val_rollouts.f64"};
inline constexpr std::size_t kTextFiles = 5, kChatFiles = 9, kVocabularyIndex = 4;

struct DatasetRecord {
  std::string tokenizer_kind;
  std::int64_t vocab_size = 0;
  std::string vocabulary_digest{};  // Tokenizer::digest(); empty: written before it was kept
  SplitInfo train;
  SplitInfo val;
  std::vector<formats::FileDigest> files{};  // the first of kDatasetFiles; MiB hashes are not kept
};

std::string print(const DatasetRecord& record);
DatasetRecord parse_record(std::string_view text, const std::string& what);

// Writes the vocabulary and dataset.json next to the token files of `record`, completes it and returns the text of
// dataset.json.
std::string write_record(const Path& directory, const Tokenizer& tokenizer, DatasetRecord& record);

}  // namespace trireme::text
