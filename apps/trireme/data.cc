// trireme data prepare|inspect|verify.
#include <unistd.h>

#include <cstdio>

#include "commands.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/formats/dataset.h"
#include "trireme/formats/sources.h"

namespace trireme::app {
namespace {

void print_split(const char* name, const formats::SplitInfo& split) {
  fmt::print("{:<12}{} tokens in {} documents, {} bytes of text\n", name, split.tokens,
             split.documents, split.text_bytes);
}

void print(const formats::Dataset& dataset) {
  fmt::print("dataset     {}\ndigest      {}\ntokenizer   {}, {} ids\n", dataset.directory.string(),
             dataset.digest, dataset.tokenizer.kind(), dataset.tokenizer.vocab_size());
  print_split("train", dataset.train_info);
  print_split("validation", dataset.val_info);
}

std::vector<Path> paths(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

}  // namespace

int data_prepare(const PrepareOptions& options) {
  formats::PrepareOptions prepare{.sources = {},
                                  .out = options.out,
                                  .tokenizer = formats::parse_tokenizer(options.tokenizer),
                                  .validation = {},
                                  .end_of_document = options.end_of_document,
                                  .force = options.force};
  prepare.sources = formats::collect_sources(paths(options.inputs), options.extensions);
  // Whole files where there are several; of one, the end.
  constexpr char kDocuments[] = "documents:0.1", kTail[] = "tail:0.1";
  prepare.validation = formats::parse_validation(!options.validation.empty()  ? options.validation
                                                 : prepare.sources.size() > 1 ? kDocuments
                                                                              : kTail);
  const bool terminal = ::isatty(1);
  Stopwatch since_drawn;
  if (terminal)
    prepare.progress = [&](const formats::PrepareProgress& p) {
      constexpr double kRedraw = 0.1;
      if (since_drawn.seconds() < kRedraw) return;
      since_drawn.restart();
      fmt::print("\r{}/{} files, {:.0f}%\x1b[K", p.files_done, p.files,
                 100.0 * static_cast<double>(p.bytes_done) /
                     static_cast<double>(std::max<std::int64_t>(1, p.bytes)));
      std::fflush(stdout);
    };
  const formats::Dataset dataset = formats::prepare_dataset(prepare);
  if (terminal) fmt::print("\r\x1b[K");
  print(dataset);
  return 0;
}

int data_inspect(const DatasetOptions& options) {
  print(formats::open_dataset(options.path));
  return 0;
}

int data_verify(const DatasetOptions& options) {
  const formats::Dataset dataset = formats::verify_dataset(options.path);
  print(dataset);
  fmt::print("every byte is as it was written\n");
  return 0;
}

}  // namespace trireme::app
