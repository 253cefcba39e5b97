// Contents of dataset.json; shared by the code that writes datasets and the code that opens them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/data/text/dataset.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/formats/digest.h"

namespace trireme::text {

inline constexpr char kDatasetName[] = "dataset.json";
inline constexpr const char* kDatasetFiles[] = {"train.bin", "train.idx", "val.bin", "val.idx",
                                                kVocabularyName};
inline constexpr std::size_t kVocabularyIndex = 4;

struct DatasetRecord {
  std::string tokenizer_kind;
  std::int64_t vocab_size = 0;
  std::string vocabulary_digest{};  // Tokenizer::digest(); empty: written before it was kept
  SplitInfo train;
  SplitInfo val;
  std::array<formats::FileDigest, std::size(kDatasetFiles)>
      files;  // as in kDatasetFiles; MiB hashes are not kept
};

std::string print(const DatasetRecord& record);
DatasetRecord parse_record(std::string_view text, const std::string& what);

}  // namespace trireme::text
