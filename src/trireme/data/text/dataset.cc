#include "trireme/data/text/dataset.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/held_out.h"
#include "trireme/data/text/bpe_train.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

constexpr char kDatasetFormat[] = "trireme.dataset";
constexpr std::int64_t kDatasetVersion = 1;

void check_size(const Path& directory, const char* name, std::int64_t size) {
  std::error_code cause;
  const auto found = std::filesystem::file_size(directory / name, cause);
  if (cause) fail(ErrorKind::kData, "{}: {}", (directory / name).string(), cause.message());
  if (static_cast<std::int64_t>(found) != size)
    fail(ErrorKind::kData, "{}: has {} bytes, {} says {}; prepare the data again",
         (directory / name).string(), found, kDatasetName, size);
}

SplitInfo split_from(const formats::JsonFields& splits, const char* name) {
  const formats::JsonFields fields(splits.any(name), splits.where() + ": " + name);
  fields.only({"documents", "tokens", "text_bytes"});
  return {.documents = fields.integer("documents"),
          .tokens = fields.integer("tokens"),
          .text_bytes = fields.integer("text_bytes")};
}

void check_split(const Path& directory, const char* name, const SplitInfo& info,
                 const TokenFile& file) {
  if (file.documents() != info.documents || file.tokens() != info.tokens)
    fail(ErrorKind::kData, "{}: {} documents and {} tokens, {} says {} and {}",
         (directory / name).string(), file.documents(), file.tokens(), kDatasetName, info.documents,
         info.tokens);
}

}  // namespace

std::string print(const DatasetRecord& record) {
  const auto split = [](const SplitInfo& info) {
    return Json{
        {"documents", info.documents}, {"tokens", info.tokens}, {"text_bytes", info.text_bytes}};
  };
  Json files = Json::object();
  for (std::size_t i = 0; i < record.files.size(); ++i)
    files[kDatasetFiles[i]] = {{"size", record.files[i].size},
                               {"xxh3", hex64(record.files[i].hash)}};
  Json json{{"format", kDatasetFormat},
            {"version", kDatasetVersion},
            {"tokenizer", record.tokenizer_kind},
            {"vocab_size", record.vocab_size},
            {"splits", {{"train", split(record.train)}, {"val", split(record.val)}}},
            {"files", files}};
  if (!record.vocabulary_digest.empty()) json["vocabulary_digest"] = record.vocabulary_digest;
  return json.dump(1) + "\n";
}

DatasetRecord parse_record(std::string_view text, const std::string& what) {
  const Json json = parse_json(text, what);
  const formats::JsonFields fields(json, what);
  fields.need_format(kDatasetFormat, kDatasetVersion, "prepare the data again");
  fields.only(
      {"format", "version", "tokenizer", "vocab_size", "vocabulary_digest", "splits", "files"});
  const formats::JsonFields splits(fields.any("splits"), what + ": splits");
  splits.only({"train", "val"});
  DatasetRecord record{.tokenizer_kind = fields.string("tokenizer"),
                       .vocab_size = fields.integer("vocab_size", 1),
                       .train = split_from(splits, "train"),
                       .val = split_from(splits, "val")};
  if (json.contains("vocabulary_digest"))
    record.vocabulary_digest = fields.string("vocabulary_digest");
  const formats::JsonFields files(fields.any("files"), what + ": files");
  std::size_t count = kTextFiles;
  if (files.has(kDatasetFiles[kTextFiles])) count = kChatFiles;
  if (files.has(kDatasetFiles[kChatFiles])) count = std::size(kDatasetFiles);
  for (std::size_t i = 0; i < count; ++i) {
    const formats::JsonFields file(files.any(kDatasetFiles[i]), what + ": " + kDatasetFiles[i]);
    file.only({"size", "xxh3"});
    record.files.push_back(
        {.size = file.integer("size"), .hash = file.hex("xxh3"), .mib_hashes = {}});
  }
  return record;
}

std::string write_record(const Path& directory, const Tokenizer& tokenizer, DatasetRecord& record) {
  record.tokenizer_kind = tokenizer.kind();
  record.vocab_size = tokenizer.vocab_size();
  record.vocabulary_digest = tokenizer.digest();
  formats::DigestWriter vocabulary(directory / kVocabularyName);
  vocabulary.write(tokenizer.description());
  record.files[kVocabularyIndex] = vocabulary.finish();
  std::string text = print(record);
  write_file_synced(directory / kDatasetName, text);
  return text;
}

namespace {

// Of the contents: the vocabulary's digest, which earlier versions did not write, is left out.
std::string digest_of(DatasetRecord record) {
  record.vocabulary_digest.clear();
  return hex64(hash64(print(record)));
}

}  // namespace

Dataset open_dataset(const Path& directory) {
  std::error_code cause;
  if (std::filesystem::is_regular_file(directory, cause))
    fail(ErrorKind::kData,
         "{}: is a file, and a dataset of tokens is a directory. Make one of text with: trireme "
         "data "
         "prepare {} --out DIRECTORY",
         directory.string(), directory.string());
  if (!std::filesystem::is_directory(directory, cause))
    fail(ErrorKind::kData, "{}: no such dataset directory; make one with: trireme data prepare",
         directory.string());
  if (!std::filesystem::exists(directory / kDatasetName, cause))
    fail(ErrorKind::kData,
         "{}: has no {}, so it is not a dataset; make one with: trireme data prepare",
         directory.string(), kDatasetName);
  const std::string text = read_file(directory / kDatasetName, std::size_t{1} << 20);
  const DatasetRecord record = parse_record(text, (directory / kDatasetName).string());
  for (std::size_t i = 0; i < record.files.size(); ++i)
    check_size(directory, kDatasetFiles[i], record.files[i].size);

  const Path vocabulary = directory / kVocabularyName;
  const std::string description = read_file(vocabulary);
  if (hash64(description) != record.files[kVocabularyIndex].hash)
    fail(ErrorKind::kData, "{}: does not have the digest that {} says: damaged or edited",
         vocabulary.string(), kDatasetName);
  Dataset dataset{.directory = directory,
                  .digest = digest_of(record),
                  .tokenizer = Tokenizer::from_description(description, vocabulary.string()),
                  .train_info = record.train,
                  .val_info = record.val,
                  .train = TokenFile(directory / "train"),
                  .val = TokenFile(directory / "val")};
  if (dataset.tokenizer.vocab_size() != record.vocab_size)
    fail(ErrorKind::kData, "{}: vocabulary of {}, {} says {}", vocabulary.string(),
         dataset.tokenizer.vocab_size(), kDatasetName, record.vocab_size);
  if (!record.vocabulary_digest.empty() && dataset.tokenizer.digest() != record.vocabulary_digest)
    fail(ErrorKind::kData, "{}: vocabulary of digest {}, {} says {}", vocabulary.string(),
         dataset.tokenizer.digest(), kDatasetName, record.vocabulary_digest);
  check_split(directory, "train", record.train, dataset.train);
  check_split(directory, "val", record.val, dataset.val);
  if (record.files.size() > kTextFiles) {
    dataset.train_loss.emplace(directory / "train_loss");
    dataset.val_loss.emplace(directory / "val_loss");
    check_split(directory, "train_loss", record.train, *dataset.train_loss);
    check_split(directory, "val_loss", record.val, *dataset.val_loss);
  }
  return dataset;
}

Dataset verify_dataset(const Path& directory) {
  Dataset dataset = open_dataset(directory);
  const Path path = directory / kDatasetName;
  const DatasetRecord record = parse_record(read_file(path), path.string());
  for (std::size_t i = 0; i < record.files.size(); ++i)
    if (formats::digest_file(directory / kDatasetFiles[i]).hash != record.files[i].hash)
      fail(ErrorKind::kData, "{}: does not have the digest that {} says: damaged or edited",
           (directory / kDatasetFiles[i]).string(), kDatasetName);
  for (const auto& [name, file] :
       {std::pair{"train.bin", &dataset.train}, {"val.bin", &dataset.val}})
    if (const std::int64_t token = file->max_token(); token >= record.vocab_size)
      fail(ErrorKind::kData, "{}: has token {}, the vocabulary has {}", (directory / name).string(),
           token, record.vocab_size);
  return dataset;
}

ValidationRule parse_validation(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view by = text.substr(0, colon);
  const std::string_view number = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  double fraction = 0;
  const auto [end, cause] = std::from_chars(number.data(), number.data() + number.size(), fraction);
  const bool whole = cause == std::errc() && end == number.data() + number.size();
  constexpr double kMostDocuments = 1e15;
  if (whole && by == "documents" && is_count(fraction) && fraction == std::floor(fraction) &&
      fraction < kMostDocuments)
    return {.count = static_cast<std::int64_t>(fraction)};
  if (!whole || !(fraction > 0 && fraction < 1) || (by != "documents" && by != "tail"))
    fail(ErrorKind::kUsage,
         "validation {}: needs documents:F or tail:F with 0 < F < 1, such as documents:0.05, or "
         "documents:N with a whole number of files, such as documents:20",
         formats::shown(text));
  return {.by = by == "tail" ? ValidationRule::By::kTail : ValidationRule::By::kDocuments,
          .fraction = fraction};
}

TokenizerChoice parse_tokenizer(std::string_view text) {
  using By = TokenizerChoice::By;
  if (text == "bytes") return {.by = By::kBytes};
  if (text == "characters") return {.by = By::kCharacters};
  constexpr std::string_view kTrained = "bpe:";
  if (!text.starts_with(kTrained)) return {.by = By::kFile, .file = text};
  const std::string_view number = text.substr(kTrained.size());
  std::int32_t size = 0;
  const auto [end, cause] = std::from_chars(number.data(), number.data() + number.size(), size);
  if (cause != std::errc() || end != number.data() + number.size() ||
      size < kMinTrainedVocabulary || size > kMaxTrainedVocabulary)
    fail(ErrorKind::kUsage, "tokenizer {}: bpe:N with N from {} to {} is needed, such as bpe:1024",
         formats::shown(text), kMinTrainedVocabulary, kMaxTrainedVocabulary);
  return {.by = By::kTrained, .vocab_size = size};
}

}  // namespace trireme::text
