// trireme data prepare|inspect|verify.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/trireme/commands.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/config/values/yaml.h"
#include "trireme/data/media/samples.h"
#include "trireme/data/media/split.h"
#include "trireme/data/text/dataset.h"
#include "trireme/data/text/sources.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::app {
namespace {

void print_split(const char* name, const text::SplitInfo& split) {
  fmt::print("{:<12}{} tokens in {} documents, {} bytes of text\n", name, split.tokens,
             split.documents, split.text_bytes);
}

Json split_json(const text::SplitInfo& split) {
  return {
      {"documents", split.documents}, {"tokens", split.tokens}, {"text_bytes", split.text_bytes}};
}

Json json_of(const text::Dataset& dataset) {
  return {{"dataset", dataset.directory.string()},
          {"digest", dataset.digest},
          {"tokenizer", dataset.tokenizer.kind()},
          {"vocabulary", dataset.tokenizer.vocab_size()},
          {"vocabulary_digest", dataset.tokenizer.digest()},
          {"train", split_json(dataset.train_info)},
          {"validation", split_json(dataset.val_info)}};
}

Json json_of(const std::string& path, const media::Samples& samples) {
  return {{"dataset", path},
          {"digest", samples.digest()},
          {"samples", samples.size()},
          {"kind", media::name(samples.kind())},
          {"classes", samples.classes().size()}};
}

void print_tokenizer(const text::Tokenizer& tokenizer) {
  fmt::print("tokenizer   {}, {} ids, digest {}\n", tokenizer.kind(), tokenizer.vocab_size(),
             tokenizer.digest());
}

void print(const text::Dataset& dataset) {
  fmt::print("dataset     {}\ndigest      {}\n", dataset.directory.string(), dataset.digest);
  print_tokenizer(dataset.tokenizer);
  print_split("train", dataset.train_info);
  print_split("validation", dataset.val_info);
}

// Whether it is what trireme/data/media/samples.h opens; else a dataset of tokens, or nothing.
bool holds_media(const Path& path) {
  std::error_code cause;
  if (!std::filesystem::exists(path, cause))
    return path.string().find_first_of("*{") != std::string::npos;
  if (!std::filesystem::is_directory(path, cause)) {
    const std::string ending = path.extension().string();
    return ending == ".tar" || ending == ".json" || ending == ".csv";
  }
  for (const char* name : {"dataset.json", "train.bin", "train.idx", "val.bin", "val.idx"})
    if (std::filesystem::exists(path / name, cause)) return false;
  return true;
}

void print(const std::string& path, const media::Samples& samples) {
  fmt::print("dataset     {}\ndigest      {}\nholds       {} {}\n", path, samples.digest(),
             samples.size(), media::name(samples.kind()));
  if (!samples.classes().empty()) fmt::print("classes     {}\n", samples.classes().size());
}

// Decodes every sample. Throws Error{kData} after it has named those that are bad.
void decode_all(const media::Samples& samples) {
  std::atomic<std::int64_t> next = 0;
  std::vector<std::future<void>> workers;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    workers.push_back(std::async(std::launch::async, [&] {
      for (std::int64_t i; (i = next++) < samples.size();) samples.take(i);
    }));
  for (std::future<void>& worker : workers) worker.get();
  const media::BadReport bad = samples.bad();
  for (const std::string& reason : bad.reasons) fmt::print("bad         {}\n", reason);
  if (bad.count > 0)
    fail(ErrorKind::kData, "{} of {} samples cannot be used", bad.count, samples.size());
}

// Prints each part of a data set of files, hands it to `check`, and returns what --json says of them: of several parts an
// array.
template <typename Check>
Json parts_json(const std::string& path, media::BadSamples bad, const Check& check) {
  Json all = Json::array();
  for (const Path& part : media::parts_of(path)) {
    const media::Samples samples = media::open_samples({.sources = {part}, .bad = bad});
    print(part.string(), samples);
    check(samples);
    all.push_back(json_of(part.string(), samples));
  }
  return all.size() == 1 ? all.front() : all;
}

std::vector<Path> paths(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

void check_special(const std::vector<std::string>& special, const text::TokenizerChoice& choice) {
  if (!special.empty() && choice.by != text::TokenizerChoice::By::kTrained)
    fail(
        ErrorKind::kUsage,
        "--special {}: tokens are added to a vocabulary that is learnt; give --tokenizer bpe:N, or "
        "leave it out",
        special.front());
  for (const std::string& token : special)
    if (token.empty() || !config::is_printable(token) || std::ranges::count(special, token) > 1)
      fail(ErrorKind::kUsage,
           "--special '{}': needs printable text in UTF-8, each token once, such as <|endoftext|>",
           config::is_printable(token) ? token : "");
}

}  // namespace

int data_prepare(const PrepareOptions& options) {
  text::PrepareOptions prepare{.sources = {},
                               .out = options.out,
                               .tokenizer = text::parse_tokenizer(options.tokenizer),
                               .validation = {},
                               .end_of_document = options.end_of_document,
                               .binary = options.binary,
                               .force = options.force};
  check_special(options.special, prepare.tokenizer);
  prepare.tokenizer.special = options.special;
  prepare.sources = text::collect_sources(paths(options.inputs), options.extensions);
  // Whole files where there are several; of one, the end.
  constexpr char kDocuments[] = "documents:0.1", kTail[] = "tail:0.1";
  prepare.validation = text::parse_validation(!options.validation.empty()  ? options.validation
                                              : prepare.sources.size() > 1 ? kDocuments
                                                                           : kTail);
  const bool terminal = ::isatty(1);
  Stopwatch since_drawn;
  if (terminal)
    prepare.progress = [&](const text::PrepareProgress& p) {
      constexpr double kRedraw = 0.1;
      if (since_drawn.seconds() < kRedraw) return;
      since_drawn.restart();
      fmt::print("\r{}/{} files, {:.0f}%\x1b[K", p.files_done, p.files,
                 100.0 * static_cast<double>(p.bytes_done) /
                     static_cast<double>(std::max<std::int64_t>(1, p.bytes)));
      std::fflush(stdout);
    };
  const text::Dataset dataset = text::prepare_dataset(prepare);
  if (terminal) fmt::print("\r\x1b[K");
  print(dataset);
  return 0;
}

int data_inspect(const DatasetOptions& options) {
  check_output(options.json);
  if (!holds_media(options.path)) {
    const text::Dataset dataset = text::open_dataset(options.path);
    print(dataset);
    write_json(options.json, json_of(dataset));
    return 0;
  }
  write_json(options.json,
             parts_json(options.path, media::BadSamples::kRefuse, [](const auto&) {}));
  return 0;
}

int data_tokenizer(const TokenizerOptions& options) {
  check_output(options.json);
  const text::Tokenizer tokenizer = text::read_vocabulary(options.path);
  print_tokenizer(tokenizer);
  Json json{{"tokenizer", tokenizer.kind()},
            {"vocabulary", tokenizer.vocab_size()},
            {"vocabulary_digest", tokenizer.digest()},
            {"ends_of_text", Json::array()}};
  for (const std::int32_t id : tokenizer.ends()) {
    const std::string text = tokenizer.decode(std::span(&id, 1));
    fmt::print("end of text {} ({})\n", id, text);
    json["ends_of_text"].push_back({{"id", id}, {"text", text}});
  }
  if (!options.out.empty()) {
    replace_file(options.out, tokenizer.tokenizer_json());
    fmt::print("written     {}\n", options.out);
  }
  write_json(options.json, json);
  return 0;
}

int data_verify(const DatasetOptions& options) {
  check_output(options.json);
  if (holds_media(options.path)) {
    write_json(options.json, parts_json(options.path, media::BadSamples::kSkip, decode_all));
    fmt::print("every sample can be decoded\n");
    return 0;
  }
  const text::Dataset dataset = text::verify_dataset(options.path);
  print(dataset);
  write_json(options.json, json_of(dataset));
  fmt::print("every byte is as it was written\n");
  return 0;
}

}  // namespace trireme::app
