// prepare_dataset of dataset.h.
#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/os/staging.h"
#include "trireme/data/text/bpe_train.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/data/text/text_file.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::text {
namespace {

namespace fs = std::filesystem;

void check_out(const Path& out) {
  std::error_code cause;
  if (out.empty()) fail(ErrorKind::kUsage, "no directory for the dataset; name one with --out");
  if (!fs::exists(fs::symlink_status(out, cause))) return;
  const bool replaceable = fs::is_directory(fs::symlink_status(out, cause)) &&
                           (fs::is_empty(out, cause) || fs::exists(out / kDatasetName, cause));
  if (!replaceable)
    fail(ErrorKind::kUsage, "{} exists and is not a dataset; choose another directory with --out",
         out.string());
}

// How much of each document trains; the rest of it validates. Asked for the sources in their order.
class Cut {
 public:
  explicit Cut(const PrepareOptions& options) : rule_(options.validation) {
    std::int64_t bytes = 0;
    for (const SourceFile& source : options.sources) bytes += source.size;
    left_ =
        static_cast<std::int64_t>(std::floor(static_cast<double>(bytes) * (1 - rule_.fraction)));
    limit_ = rule_.count > 0 ? limit_of(options.sources) : rule_.fraction;
  }

  // The first bytes of the next document.
  std::string_view training(const SourceFile& source, std::string_view text) {
    if (rule_.by == ValidationRule::By::kDocuments) return held_out(source) ? "" : text;
    const auto size = static_cast<std::int64_t>(text.size());
    const std::int64_t at = std::clamp<std::int64_t>(left_, 0, size);
    left_ -= size;
    return text.substr(0, boundary(text, static_cast<std::size_t>(at)));
  }

 private:
  // The name alone decides, so adding files moves no other file to the other side of a fraction.
  bool held_out(const SourceFile& source) const { return place_of(source) < limit_; }
  static double place_of(const SourceFile& source) {
    return static_cast<double>(hash64(source.name) >> 11) * 0x1p-53;
  }

  // The place below which as many files lie as are asked for.
  double limit_of(const std::vector<SourceFile>& sources) const {
    if (rule_.count >= std::ssize(sources))
      fail(ErrorKind::kUsage,
           "{} files to hold out for validation, but there are {} and one has to be left to train "
           "on; hold out fewer, or a fraction such as documents:0.1",
           rule_.count, sources.size());
    std::vector<double> places;
    for (const SourceFile& source : sources) places.push_back(place_of(source));
    std::ranges::nth_element(places, places.begin() + rule_.count);
    return places[rule_.count];
  }

  // A cut may not fall into a character.
  static std::size_t boundary(std::string_view text, std::size_t at) {
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    return at;
  }

  ValidationRule rule_;
  std::int64_t left_ = 0;  // bytes that still train, by kTail
  double limit_ = 0;       // place below which a document is held out, by kDocuments
};

std::string read_source(const SourceFile& source, const PrepareOptions& options) {
  std::string text = read_file(source.path);
  if (!options.binary) check_is_text(text, source.path.string());
  return text;
}

Tokenizer characters_of(const PrepareOptions& options) {
  std::string seen;
  for (const SourceFile& source : options.sources) {
    const std::string text = read_source(source, options);
    if (text.empty()) continue;
    try {
      seen = Tokenizer::chars(seen + text).characters();
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", source.path.string(), error.what());
    }
  }
  return Tokenizer::chars(seen);
}

Tokenizer trained_on(const PrepareOptions& options) {
  WordCounts words;
  Cut cut(options);
  for (const SourceFile& source : options.sources) {
    const std::string text = read_source(source, options);
    words.add(cut.training(source, text));
  }
  return Tokenizer::hugging_face(
      train_bpe(words, options.tokenizer.vocab_size, options.tokenizer.special), "trained BPE");
}

Tokenizer make_tokenizer(const PrepareOptions& options) {
  using By = TokenizerChoice::By;
  switch (options.tokenizer.by) {
    case By::kBytes: return Tokenizer::bytes();
    case By::kCharacters: return characters_of(options);
    case By::kTrained: return trained_on(options);
    case By::kFile: break;
  }
  return read_vocabulary(options.tokenizer.file);
}

// The id put after each document; -1: none.
std::int32_t end_of_document(const PrepareOptions& options, const Tokenizer& tokenizer) {
  return options.end_of_document.empty() ? -1 : tokenizer.added_token(options.end_of_document);
}

// Tokenizes documents into the two splits.
class Splits {
 public:
  Splits(const PrepareOptions& options, const Tokenizer& tokenizer, const Path& directory)
      : options_(options),
        tokenizer_(tokenizer),
        end_(end_of_document(options, tokenizer)),
        train_(directory / "train", token_dtype(tokenizer.vocab_size())),
        val_(directory / "val", token_dtype(tokenizer.vocab_size())),
        cut_(options) {
    for (const SourceFile& source : options.sources) bytes_ += source.size;
  }

  void add(const SourceFile& source) {
    const std::string text = read_source(source, options_);
    const std::string_view head = cut_.training(source, text);
    try {
      put(head, train_, train_info);
      put(std::string_view(text).substr(head.size()), val_, val_info);
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", source.path.string(), error.what());
    }
    bytes_done_ += static_cast<std::int64_t>(text.size());
    ++files_done_;
    if (options_.progress)
      options_.progress({.files_done = files_done_,
                         .files = static_cast<std::int64_t>(options_.sources.size()),
                         .bytes_done = bytes_done_,
                         .bytes = bytes_});
  }

  void finish(DatasetRecord& record) {
    if (train_info.tokens + val_info.tokens == 0)
      fail(ErrorKind::kData, "all {} text files are empty", options_.sources.size());
    const ValidationRule& rule = options_.validation;
    if (train_info.tokens == 0 || (val_info.tokens == 0 && (rule.fraction > 0 || rule.count > 0)))
      fail(ErrorKind::kData,
           "{} of {} documents leave nothing for {}; use another fraction, or hold out the end of "
           "the text with tail:F",
           rule.count > 0 ? static_cast<double>(rule.count) : rule.fraction,
           options_.sources.size(), train_info.tokens == 0 ? "training" : "validation");
    record.train = train_info;
    record.val = val_info;
    TokenFileDigests train = train_.finish(), val = val_.finish();
    record.files = {train.bin, train.idx, val.bin, val.idx, {}};
  }

  SplitInfo train_info, val_info;

 private:
  void put(std::string_view text, TokenFileWriter& file, SplitInfo& info) {
    if (text.empty()) return;
    tokens_.clear();
    tokenizer_.encode_document(text, tokens_);
    // A template may have ended it with the same token.
    if (end_ >= 0 && tokens_.back() != end_) tokens_.push_back(end_);
    file.add_document(tokens_);
    ++info.documents;
    info.tokens += static_cast<std::int64_t>(tokens_.size());
    info.text_bytes += static_cast<std::int64_t>(text.size());
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  const std::int32_t end_;
  TokenFileWriter train_, val_;
  Cut cut_;
  std::vector<std::int32_t> tokens_;
  std::int64_t bytes_ = 0, bytes_done_ = 0, files_done_ = 0;
};

}  // namespace

Dataset prepare_dataset(const PrepareOptions& options) {
  if (options.sources.empty()) fail(ErrorKind::kData, "no text file to prepare");
  const Path out = (options.out / "").lexically_normal().parent_path();  // no trailing slash
  check_out(out);
  Tokenizer tokenizer = make_tokenizer(options);
  if (const std::int32_t end = end_of_document(options, tokenizer); end >= 0)
    tokenizer = tokenizer.with_ends({end});
  os::Staging staging(out);
  Splits splits(options, tokenizer, staging.path());
  for (const SourceFile& source : options.sources) splits.add(source);

  DatasetRecord record;
  splits.finish(record);
  const std::string text = write_record(staging.path(), tokenizer, record);

  const Path existing = out / kDatasetName;
  if (fs::exists(existing)) {
    record.vocabulary_digest.clear();  // as earlier versions wrote it
    if (const std::string there = read_file(existing); there == text || there == print(record))
      return verify_dataset(out);
    if (!options.force)
      fail(ErrorKind::kUsage,
           "{} holds another dataset; choose another directory or replace it with --force",
           out.string());
  }
  staging.publish();
  return open_dataset(out);
}

}  // namespace trireme::text
