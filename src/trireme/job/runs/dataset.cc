#include "trireme/job/runs/dataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/held_out.h"
#include "trireme/base/os/file_facts.h"
#include "trireme/config/data_sets.h"
#include "trireme/config/sections/chat.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/chat/prepare.h"
#include "trireme/data/chat/recognise.h"
#include "trireme/data/media/split.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/data/text/sources.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/job/runs/file_lock.h"
#include "trireme/job/runs/question_words.h"
#include "trireme/job/runs/verdicts.h"

namespace trireme::runs {
namespace {

namespace fs = std::filesystem;

// Part of every key: raise it when preparation changes.
constexpr std::uint64_t kPreparation = 2;
constexpr char kDatasetFile[] = "dataset.json";

std::vector<Path> directories_of(const std::vector<Path>& headers) {
  std::vector<Path> roots;
  for (const Path& root : headers)
    if (fs::is_directory(root) && std::ranges::find(roots, root) == roots.end())
      roots.push_back(root);
  return roots;
}

std::uint64_t stamped(std::uint64_t key, const Path& path) {
  std::error_code cause;
  const fs::file_time_type time = fs::last_write_time(path, cause);
  const auto size = fs::is_regular_file(path, cause) ? fs::file_size(path, cause) : 0;
  key = mix(key, hash64(fs::absolute(path, cause).lexically_normal().string()));
  return mix(mix(key, static_cast<std::uint64_t>(time.time_since_epoch().count())), size);
}

// Held-out text comes from whole files where there are several, else from the end of the one.
text::ValidationRule validation_rule(const config::Data& data, std::size_t files) {
  using By = text::ValidationRule::By;
  if (is_count(data.validation)) {
    if (files == 1)
      fail(ErrorKind::kUsage,
           "data.validation={} counts text files, and data.path={} is one file; set a fraction of "
           "it, such as data.validation=0.1",
           data.validation, data.path);
    return {.count = static_cast<std::int64_t>(data.validation)};
  }
  return {.by = files > 1 ? By::kDocuments : By::kTail, .fraction = data.validation};
}

std::uint64_t key_of(const config::Data& data) {
  const text::TokenizerChoice choice = text::parse_tokenizer(data.tokenizer);
  const std::string tokenizer = choice.by == text::TokenizerChoice::By::kFile
                                    ? text::read_vocabulary(choice.file).description()
                                    : data.tokenizer;
  return mix(mix(kPreparation, hash64(tokenizer)), hash64(fmt::format("{}", data.validation)));
}

// Opens a dataset whose bytes match the digests in dataset.json. No bytes are read if the kernel shows no change of a
// file after it, or if all bytes were read since; else they are read now.
text::Dataset open_unchanged(const Path& directory, const FindCache& cache,
                             const std::function<void(const std::string&)>& say) {
  text::Dataset dataset = text::open_dataset(directory);
  std::vector<Path> files = {directory / kDatasetFile};
  for (const char* name : text::kDatasetFiles)
    if (fs::exists(directory / name)) files.push_back(directory / name);
  if (os::changed_after(files[0], files).empty()) return dataset;
  const CheckedFiles checked(cache, directory, files);
  std::optional<std::string> problem = checked.verdict();
  if (!problem) {
    say(fmt::format("files of {} were changed after its {} was written: reading every byte (once)",
                    directory.string(), kDatasetFile));
    try {
      text::verify_dataset(directory);
      problem = "";
    } catch (const Error& error) {
      problem = error.what();
    }
    checked.keep(*problem);
  }
  if (!problem->empty())
    fail(ErrorKind::kData, "{}; restore the file from a copy, or prepare the data again", *problem);
  return dataset;
}

// Prepares once; `prepare` is called only when there is something to do.
text::Dataset prepared(const FindCache& cache, std::uint64_t key, const std::string& name,
                       const std::function<void(const std::string&)>& say,
                       const std::function<text::Dataset(const Path&)>& prepare) {
  const Path root = cache() / "datasets", out = root / hex64(key);
  if (fs::exists(out / kDatasetFile)) return open_unchanged(out, cache, say);
  make_in_cache(root);
  const FileLock lock(root / (hex64(key) + ".lock"), FileLock::Wait::kYes);
  if (fs::exists(out / kDatasetFile)) return open_unchanged(out, cache, say);
  say(fmt::format("preparing {} into {} (once)", name, out.string()));
  return prepare(out);
}

text::Dataset prepare_text(const config::Data& data, std::vector<text::SourceFile> sources,
                           const Path& out) {
  text::PrepareOptions options{.sources = std::move(sources),
                               .out = out,
                               .tokenizer = text::parse_tokenizer(data.tokenizer)};
  options.validation = validation_rule(data, options.sources.size());
  return text::prepare_dataset(options);
}

LocatedDataset located(text::Dataset dataset, std::string tokenizer, std::string what,
                       bool quickstart = false) {
  const auto megabytes = [](const text::SplitInfo& split) {
    return static_cast<double>(split.text_bytes) / 1e6;
  };
  const double bytes =
      static_cast<double>(std::max<std::int64_t>(1, dataset.train_info.text_bytes));
  what += fmt::format(
      ": {:.1f} MB to train on, {:.1f} MB held out, {:.3g} B of text for each token",
      megabytes(dataset.train_info), megabytes(dataset.val_info),
      bytes / static_cast<double>(std::max<std::int64_t>(1, dataset.train_info.tokens)));
  LocatedDataset result{.directory = dataset.directory,
                        .digest = dataset.digest,
                        .facts = {.vocab = dataset.tokenizer.vocab_size()},
                        .tokenizer = std::move(tokenizer),
                        .what = std::move(what),
                        .quickstart = quickstart};
  result.text = std::move(dataset);
  return result;
}

LocatedDataset from_quickstart(const config::Data& data, const DataPlaces& places,
                               const std::function<void(const std::string&)>& say) {
  const std::vector<Path> roots = directories_of(places.headers);
  std::uint64_t key = mix(key_of(data), hash64("quickstart"));
  for (const Path& root : roots)
    for (const char* part : {"ATen", "c10", "torch", "c++"})
      if (fs::is_directory(root / part)) key = stamped(key, root / part);
  return located(prepared(places.cache, key, "the C++ headers of this machine", say,
                          [&](const Path& out) {
                            return prepare_text(data, text::quickstart_text(roots).files, out);
                          }),
                 data.tokenizer, "C++ headers of this machine", true);
}

LocatedDataset from_text(const config::Data& data, const DataPlaces& places,
                         const std::function<void(const std::string&)>& say) {
  const std::vector<text::SourceFile> sources = text::collect_sources({data.path});
  std::uint64_t key = mix(key_of(data), sources.size());
  for (const text::SourceFile& source : sources) key = stamped(key, source.path);
  return located(prepared(places.cache, key, data.path, say,
                          [&](const Path& out) { return prepare_text(data, sources, out); }),
                 data.tokenizer, data.path);
}

// That of the model: none is learned from conversations.
text::Tokenizer chat_tokenizer(const config::Data& data) {
  using By = text::TokenizerChoice::By;
  const text::TokenizerChoice choice = text::parse_tokenizer(data.tokenizer);
  if (choice.by == By::kFile) return text::read_vocabulary(choice.file);
  if (choice.by == By::kBytes) return text::Tokenizer::bytes();
  fail(ErrorKind::kUsage,
       "data.tokenizer={}: no vocabulary is learned from conversations; set data.tokenizer to the "
       "model's directory or tokenizer.json, or to bytes",
       data.tokenizer);
}

LocatedDataset from_chat(const config::Data& data, const DataPlaces& places,
                         const std::function<void(const std::string&)>& say) {
  const text::Tokenizer tokenizer = chat_tokenizer(data);
  config::Chat chat = config::parse_chat(data.chat);
  if (chat.shape == config::Chat{}.shape)
    chat.shape = chat::template_of_model(text::parse_tokenizer(data.tokenizer).file, "data.chat");
  const chat::Template& shape = chat::find_template(chat.shape);
  chat::render(shape, chat::Conversation(1),
               {.prompt = true, .date = chat.date});  // refuses a missing date
  const std::vector<text::SourceFile> sources = text::collect_sources({data.path}, {".jsonl"});
  const bool compares = data.source == config::DataSource::kPreferences;
  const std::string made_by = fmt::format("{} {} {}{}", chat.shape, chat.date, chat.forbid,
                                          compares ? " preferences" : "");  // rows are packed later
  std::uint64_t key = mix(mix(key_of(data), hash64(made_by)), sources.size());
  for (const text::SourceFile& source : sources) key = stamped(key, source.path);
  text::Dataset dataset = prepared(places.cache, key, data.path, say, [&](const Path& out) {
    return chat::prepare({.sources = sources,
                          .out = out,
                          .tokenizer = tokenizer,
                          .shape = shape,
                          .style = {.date = chat.date},
                          .forbid = chat.forbid,
                          .validation = data.validation,
                          .preferences = compares});
  });
  LocatedDataset result{.directory = dataset.directory,
                        .digest = dataset.digest,
                        .facts = {.vocab = tokenizer.vocab_size()},
                        .tokenizer = data.tokenizer,
                        .chat = config::print(chat)};
  result.what = fmt::format("{}: {}, template {}", data.path, chat::samples_of(dataset, compares),
                            chat.shape);
  result.text = std::move(dataset);
  return result;
}

// Whether the tokenizer may be the one chosen; a file may since have gone, and then any vocabulary of a file may be its own.
bool may_be(const text::Tokenizer& tokenizer, const text::TokenizerChoice& choice) {
  using By = text::TokenizerChoice::By;
  const std::string_view kind = tokenizer.kind();
  switch (choice.by) {
    case By::kBytes: return kind == "bytes";
    case By::kCharacters: return kind == "characters";
    case By::kTrained: return kind == "bpe" && tokenizer.vocab_size() == choice.vocab_size;
    case By::kFile: break;
  }
  if (!text::find_vocabulary(choice.file)) return tokenizer.from_file();
  return text::read_vocabulary(choice.file).digest() == tokenizer.digest();
}

LocatedDataset from_dataset(const config::Data& data, const DataPlaces& places,
                            const std::function<void(const std::string&)>& say) {
  text::Dataset dataset = open_unchanged(data.path, places.cache, say);
  const std::string own = dataset.tokenizer.kind();
  const bool says_nothing = data.tokenizer == config::Data{}.tokenizer;
  if (!says_nothing && !may_be(dataset.tokenizer, text::parse_tokenizer(data.tokenizer)))
    fail(ErrorKind::kUsage,
         "data.tokenizer={}, but the dataset {} was prepared with {} of {} ids (digest {}); leave "
         "data.tokenizer out or prepare again",
         data.tokenizer, data.path, own, dataset.tokenizer.vocab_size(),
         dataset.tokenizer.digest());
  // A file is kept as it was given: the dataset holds the vocabulary itself.
  const bool from_file = dataset.tokenizer.from_file();
  return located(std::move(dataset), from_file ? data.tokenizer : own, data.path);
}

LocatedDataset from_nothing(const config::Data& data, const config::SyntheticSource& source) {
  const double share = is_count(data.validation) ? 1 : static_cast<double>(data.samples);
  return {.digest = config::digest(source),
          .held_out = static_cast<std::int64_t>(std::ceil(data.validation * share)),
          .facts = source.facts,
          .tokenizer = data.tokenizer,
          .what = fmt::format("{}, generated during training: {} samples an epoch", source.name,
                              data.samples)};
}

config::DatasetFacts facts_of(const media::Splits& splits) {
  return {.vocab = 256, .classes = std::ssize(splits.classes)};
}

media::Splits open_splits(const config::Data& data, std::string_view source) {
  std::vector<Path> paths;
  for (const config::DataSet& set : config::data_sets(data)) {
    if (std::error_code cause; fs::exists(Path(set.path) / kDatasetFile, cause))
      fail(ErrorKind::kUsage,
           "data.path={}: {} is a data set of prepared tokens, and data.source={} reads files; "
           "name the directory or list of these, whose questions are read with data.tokenizer",
           data.path, set.path, source);
    paths.emplace_back(set.path);
  }
  return media::open_splits(source, paths, data.validation);
}

std::vector<Path> files_of(const media::Split& split) {
  std::vector<Path> files = split.train.samples->files();
  if (split.held_out.samples && split.held_out.samples != split.train.samples)
    for (Path& file : split.held_out.samples->files()) files.push_back(std::move(file));
  return files;
}

LocatedDataset from_files(const config::Data& data, std::string_view source) {
  const media::Splits splits = open_splits(data, source);
  const std::vector<config::DataSet> sets = config::data_sets(data);
  LocatedDataset located{.directory = data.path,
                         .digest = fmt::format("{} {}", source, splits.digest),
                         .facts = facts_of(splits),
                         .tokenizer = data.tokenizer,
                         .classes = splits.classes};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const media::Split& split = splits.sets[i];
    const std::size_t held_out = split.held_out.numbers.size();
    located.held_out += static_cast<std::int64_t>(held_out);
    located.what += fmt::format(
        "{}{}: {} {} to train on{}, {} held out", i == 0 ? "" : "; ", sets[i].path,
        split.train.numbers.size(), media::name(split.train.samples->kind()),
        sets.size() == 1 ? "" : fmt::format(" ({:.3g} % of what is drawn)", 100 * sets[i].share),
        held_out);
    for (Path& file : files_of(split)) located.files.push_back(std::move(file));
  }
  if (!splits.classes.empty()) located.what += fmt::format(", {} classes", splits.classes.size());
  return located;
}

config::DatasetFacts facts_of_source(const config::Data& data) {
  if (const config::SyntheticSource* source = config::synthetic_source(data.source))
    return source->facts;
  std::error_code cause;
  if (const std::string_view files = config::files_of(data.source); !files.empty())
    return std::ranges::all_of(
               config::data_sets(data),
               [&](const config::DataSet& set) { return fs::exists(set.path, cause); })
               ? facts_of(open_splits(data, files))
               : config::DatasetFacts{.vocab = 256};
  if (!data.path.empty() && fs::exists(Path(data.path) / kDatasetFile, cause))
    return {.vocab = text::read_vocabulary(data.path).vocab_size()};
  const text::TokenizerChoice choice = text::parse_tokenizer(data.tokenizer);
  using By = text::TokenizerChoice::By;
  if (choice.by == By::kBytes) return {.vocab = 256};
  if (choice.by == By::kFile && text::find_vocabulary(choice.file))
    return {.vocab = text::read_vocabulary(choice.file).vocab_size()};
  return {.vocab = choice.vocab_size};
}

}  // namespace

LocatedDataset locate_dataset(const config::Data& data, const DataPlaces& places,
                              const std::function<void(const std::string&)>& say) {
  if (const config::SyntheticSource* source = config::synthetic_source(data.source))
    return with_words(data, from_nothing(data, *source));
  // Where the path is missing, resolving the job says so.
  const std::string_view files = config::files_of(data.source);
  if (!files.empty() && !data.path.empty()) return with_words(data, from_files(data, files));
  if (!files.empty()) return {};
  if (data.path.empty() && data.source == config::DataSource::kText)
    return from_quickstart(data, places, say);
  std::error_code cause;
  if (!fs::exists(data.path, cause))
    fail(ErrorKind::kData,
         "data.path={}: no such file or directory; needs a text file, a directory of text or a "
         "prepared dataset",
         data.path);
  const bool is_prepared = fs::exists(Path(data.path) / kDatasetFile, cause);
  if (config::reads_conversations(data.source) && is_prepared)
    fail(ErrorKind::kUsage,
         "data.path={}: is a prepared data set, and data.source={} reads .jsonl files of "
         "conversations; name these",
         data.path, data.source == config::DataSource::kChat ? "chat" : "preferences");
  if (config::reads_conversations(data.source)) return from_chat(data, places, say);
  if (is_prepared) return from_dataset(data, places, say);
  return from_text(data, places, say);
}

config::Job on_data(config::Job job, const LocatedDataset& data) {
  job.data.tokenizer = data.tokenizer;
  if (data.words) check_words(job, *data.words);
  if (!data.chat.empty()) job.data.chat = data.chat;
  if (job.data.source == config::DataSource::kPreferences && data.text)
    chat::check_preferences(*data.text, job.preference.loss);
  return job;
}

std::int64_t held_out_samples(const LocatedDataset& data, const config::Job& job) {
  if (!data.text) return data.held_out;
  if (data.text->val_loss)
    return data.text->val_info.documents /
           (job.data.source == config::DataSource::kPreferences ? 2 : 1);
  const std::int64_t targets = std::max<std::int64_t>(0, data.text->val_info.tokens - 1);
  return (targets + job.model.seq_len - 1) / job.model.seq_len;
}

config::DatasetFacts known_facts(const config::Data& data) {
  config::DatasetFacts facts = facts_of_source(data);
  using By = text::TokenizerChoice::By;
  const text::TokenizerChoice choice = text::parse_tokenizer(data.tokenizer);
  if (choice.by == By::kFile && text::find_vocabulary(choice.file))
    add_words(words_of(data), facts);
  return facts;
}

config::DatasetFacts facts_without_text(const config::Job& job) {
  if (!config::reads_text(job.data.source)) return known_facts(job.data);
  return {.vocab = job.data.tokenizer == "bytes" && job.model.vocab == 0 ? 256 : 0};
}

}  // namespace trireme::runs
