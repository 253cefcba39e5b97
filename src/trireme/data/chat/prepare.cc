#include "trireme/data/chat/prepare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/held_out.h"
#include "trireme/base/os/staging.h"
#include "trireme/data/chat/encode.h"
#include "trireme/data/chat/rollouts.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/formats/shown.h"

namespace trireme::chat {
namespace {

struct Line {
  std::string_view json;
  std::size_t source;
  std::int64_t number;  // from 1
};

std::vector<Line> lines_of(const std::vector<std::string>& texts) {
  std::vector<Line> lines;
  for (std::size_t source = 0; source < texts.size(); ++source) {
    std::string_view rest = texts[source];
    for (std::int64_t number = 1; !rest.empty(); ++number) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.find_first_not_of(" \t\r") != line.npos) lines.push_back({line, source, number});
    }
  }
  return lines;
}

std::string what_of(const Line& line, const PrepareOptions& options) {
  return fmt::format("{}:{}", options.sources[line.source].path.string(), line.number);
}

double place_of(const Line& line) { return static_cast<double>(hash64(line.json) >> 11) * 0x1p-53; }

// The place below which lines are held out.
double limit_of(const std::vector<Line>& lines, double validation) {
  if (!is_count(validation)) return validation;
  const auto count = static_cast<std::int64_t>(validation);
  if (count >= std::ssize(lines))
    fail(ErrorKind::kUsage,
         "data.validation={}: there are {} lines, of which some have to be left to train "
         "on; hold out fewer, or a fraction such as data.validation=0.1",
         validation, lines.size());
  std::vector<double> places;
  for (const Line& line : lines) places.push_back(place_of(line));
  const auto last = places.begin() + std::max<std::int64_t>(count - 1, 0);
  std::ranges::nth_element(places, last);
  return count == 0 ? 0 : std::nextafter(*last, 2.0);  // equal conversations with it
}

// Also marks of the template that the vocabulary has no special tokens for.
void refuse_special(const Conversation& conversation, const text::Tokenizer& tokenizer,
                    const Template& shape) {
  for (const Message& message : conversation) {
    for (const std::string_view mark : marks(shape))
      if (message.content.find(mark) != message.content.npos)
        fail(
            ErrorKind::kData,
            "a message has {}, a mark of the template, which special=forbid refuses. Remove it, or "
            "leave special=forbid out of data.chat",
            mark);
    const auto read = tokenizer.encode_spans(message.content),
               plain = tokenizer.encode_spans(message.content, text::Specials::kPlainText);
    if (read == plain) continue;
    const auto [special, other] = std::ranges::mismatch(read, plain);
    fail(ErrorKind::kData,
         "a message has the special token {}, which special=forbid refuses. Remove it, or leave "
         "special=forbid out of data.chat",
         special == read.end()
             ? ""
             : formats::shown(std::string_view(message.content)
                                  .substr(special->begin, special->end - special->begin)));
  }
}

struct Document {
  Encoded encoded;
  std::size_t text_bytes = 0;
};

// Token files of one split.
struct Split {
  Split(const Path& directory, const std::string& name, std::int64_t vocab)
      : tokens(directory / name, text::token_dtype(vocab)),
        loss(directory / (name + "_loss"), DType::kU8) {}

  // Tokens with loss have the number `mark`.
  void add(Document document, std::int32_t mark) {
    for (std::int32_t& trained : document.encoded.trained) trained *= mark;
    tokens.add_document(document.encoded.ids);
    loss.add_document(document.encoded.trained);
    info.documents += 1;
    info.tokens += std::ssize(document.encoded.ids);
    info.text_bytes += static_cast<std::int64_t>(document.text_bytes);
  }

  text::TokenFileWriter tokens, loss;
  text::SplitInfo info;
  RolloutNumbers numbers;
};

// A conversation as a document; `what` begins errors.
Document document_of(const Conversation& conversation, const PrepareOptions& options,
                     const std::string& what) {
  try {
    if (std::ranges::none_of(conversation, &Message::trained))
      fail(ErrorKind::kData, "has no answer of the assistant to train on");
    if (options.forbid) refuse_special(conversation, options.tokenizer, options.shape);
    const std::vector<Segment> segments = render(options.shape, conversation, options.style);
    return {encode(segments, options.tokenizer), text_of(segments).size()};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    fail(ErrorKind::kData, "{}: {}", what, error.what());
  }
}

void check_splits(const Split& train, const Split& val, double validation) {
  if (train.info.documents == 0 || (val.info.documents == 0 && validation > 0))
    fail(ErrorKind::kData,
         "data.validation={} of {} conversations leaves none for {}, as equal ones stay together; "
         "use "
         "another number or fraction, or data.validation=0 for no validation",
         validation, train.info.documents + val.info.documents,
         train.info.documents == 0 ? "training" : "validation");
}

// A line of preferences.
struct PreferredLine {
  Preferred sample;
  std::string what;
  bool held_out = false;
};

// Throws Error{kData} for a line of another kind than the first.
std::vector<PreferredLine> read_preferences(const std::vector<Line>& lines,
                                            const PrepareOptions& options, double limit) {
  std::vector<PreferredLine> all;
  for (const Line& line : lines) {
    const std::string what = what_of(line, options);
    all.push_back({read_preferred(line.json, what), what, place_of(line) < limit});
    if (all.back().sample.label.has_value() != all[0].sample.label.has_value())
      fail(ErrorKind::kData,
           "{}: is {}, and {} is not; a data set has lines of one kind, so put the others into "
           "another one",
           what, all.back().sample.label ? "an answer with a label" : "a pair of answers",
           all[0].what);
  }
  return all;
}

void add_preferences(const std::vector<PreferredLine>& all, const PrepareOptions& options,
                     bool held_out, Split& split) {
  using config::Answer;
  std::vector<const PreferredLine*> lines;
  for (const PreferredLine& line : all)
    if (line.held_out == held_out) lines.push_back(&line);
  const auto add_as = [&](const PreferredLine& line, const Conversation& answer, Answer mark) {
    split.add(document_of(line.sample.whole(answer), options, line.what),
              static_cast<std::int32_t>(mark));
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const PreferredLine& line = *lines[i];
    const Preferred& sample = line.sample;
    if (!sample.label) {
      add_as(line, sample.answers[0], Answer::kChosen);
      add_as(line, sample.answers[1], Answer::kRejected);
      continue;
    }
    if (lines.size() == 1)
      fail(ErrorKind::kData,
           "{}: is the only answer {}, and labels need the answer of another line to compare with; "
           "add lines, or change data.validation",
           line.what, held_out ? "held out" : "to train on");
    add_as(line, sample.answers[0], *sample.label ? Answer::kWanted : Answer::kUnwanted);
    add_as(line, lines[(i + 1) % lines.size()]->sample.answers[0], Answer::kMismatched);
  }
}

// Answers to one prompt, of one line or of several.
struct RolloutGroup {
  Line first;  // which decides whether all are held out
  std::vector<std::pair<std::string, RolloutLine>> lines{};  // with the places that begin errors
};

// Throws Error{kData} for lines of one group with unlike prompts.
std::vector<RolloutGroup> read_groups(const std::vector<Line>& lines,
                                      const PrepareOptions& options) {
  std::vector<RolloutGroup> groups;
  std::map<std::string, std::size_t> by_key;
  for (const Line& line : lines) {
    const std::string what = what_of(line, options);
    RolloutLine read = read_rollouts(line.json, what, options.tokenizer.vocab_size());
    std::size_t index = groups.size();
    if (read.group) index = by_key.try_emplace(*read.group, index).first->second;
    if (index == groups.size()) groups.push_back({line});
    auto& own = groups[index].lines;
    if (!own.empty() &&
        (own[0].second.prompt != read.prompt || own[0].second.prompt_ids != read.prompt_ids))
      fail(ErrorKind::kData,
           "{}: has another prompt than {}, and the same {}; a group has answers to one prompt",
           what, own[0].first, *read.group);
    own.emplace_back(what, std::move(read));
  }
  return groups;
}

Document document_of(const RolloutLine& line, const Rollout& answer, const PrepareOptions& options,
                     const std::string& what) {
  if (answer.ids.empty())
    return document_of(Preferred{.prompt = line.prompt, .answers = {}}.whole(answer.answer),
                       options, what);
  Encoded encoded{.ids = line.prompt_ids, .trained = {}};
  encoded.ids.insert(encoded.ids.end(), answer.ids.begin(), answer.ids.end());
  encoded.trained.assign(encoded.ids.size(), 1);
  std::fill_n(encoded.trained.begin(), line.prompt_ids.size(), 0);
  const std::size_t bytes = options.tokenizer.decode(encoded.ids).size();
  return {std::move(encoded), bytes};
}

// Appends a number for each token of a document: those of marked tokens.
void add_numbers(const Encoded& encoded, const std::vector<double>& numbers, const char* key,
                 const std::string& what, std::vector<double>& all) {
  if (numbers.empty()) return;
  const auto marked = std::ranges::count(encoded.trained, 1);
  if (std::ssize(numbers) != marked)
    fail(ErrorKind::kData,
         "{}: {} has {} numbers, and the answer has {} tokens with those of its end; needs one for "
         "each. Give prompt_ids and completion_ids, the tokens that were sampled",
         what, key, numbers.size(), marked);
  auto next = numbers.begin();
  for (const std::int32_t trained : encoded.trained) all.push_back(trained != 0 ? *next++ : 0.0);
}

// Log-probabilities are those of all answers or of none.
void check_numbers(const std::vector<double>& numbers, bool needed, const char* key,
                   const std::string& what, const std::string& first) {
  if (numbers.empty() == needed)
    fail(ErrorKind::kData, "{}: has {}{}, unlike {}; give them in all lines, or in none", what,
         needed ? "no " : "", key, first);
}

void add_rollouts(const std::vector<RolloutGroup>& groups, const PrepareOptions& options,
                  double limit, Split& train, Split& val) {
  const auto& [first, line] = groups[0].lines[0];
  const bool log_probs = !line.answers[0].log_probs.empty(),
             reference = !line.answers[0].reference.empty();
  double number = 0;
  for (const RolloutGroup& group : groups) {
    Split& split = place_of(group.first) < limit ? val : train;
    for (const auto& [what, own] : group.lines)
      for (const Rollout& answer : own.answers) {
        check_numbers(answer.log_probs, log_probs, "logprobs", what, first);
        check_numbers(answer.reference, reference, "ref_logprobs", what, first);
        Document document = document_of(own, answer, options, what);
        RolloutNumbers& all = split.numbers;
        add_numbers(document.encoded, answer.log_probs, "logprobs", what, all.log_probs);
        add_numbers(document.encoded, answer.reference, "ref_logprobs", what, all.reference);
        all.groups.push_back(number);
        all.rewards.push_back(answer.reward);
        split.add(std::move(document), static_cast<std::int32_t>(config::Answer::kSampled));
      }
    number += 1;
  }
}

void add_lines(const std::vector<Line>& lines, const PrepareOptions& options, Split& train,
               Split& val) {
  if (options.preferences && has_rollouts(lines[0].json, what_of(lines[0], options))) {
    const std::vector<RolloutGroup> groups = read_groups(lines, options);
    std::vector<Line> firsts;
    for (const RolloutGroup& group : groups) firsts.push_back(group.first);
    add_rollouts(groups, options, limit_of(firsts, options.validation), train, val);
    return;
  }
  const double limit = limit_of(lines, options.validation);
  if (options.preferences) {
    const std::vector<PreferredLine> all = read_preferences(lines, options, limit);
    add_preferences(all, options, /*held_out=*/false, train);
    add_preferences(all, options, /*held_out=*/true, val);
    return;
  }
  for (const Line& line : lines) {
    const std::string what = what_of(line, options);
    (place_of(line) < limit ? val : train)
        .add(document_of(read_conversation(line.json, what), options, what), /*mark=*/1);
  }
}

}  // namespace

text::Dataset prepare(const PrepareOptions& options) {
  std::vector<std::string> texts;
  for (const text::SourceFile& source : options.sources) texts.push_back(read_file(source.path));
  const std::vector<Line> lines = lines_of(texts);
  if (lines.empty())
    fail(ErrorKind::kData, "{}: has no line; needs one conversation a line",
         options.sources.empty() ? "data.path" : options.sources[0].path.string());
  os::Staging staging(options.out);
  Split train(staging.path(), "train", options.tokenizer.vocab_size()),
      val(staging.path(), "val", options.tokenizer.vocab_size());
  add_lines(lines, options, train, val);
  check_splits(train, val, options.validation);
  text::DatasetRecord record{.train = train.info, .val = val.info};
  record.files.resize(text::kVocabularyIndex + 1);
  std::size_t next = 0;
  for (Split* split : {&train, &val}) {
    text::TokenFileDigests tokens = split->tokens.finish(), loss = split->loss.finish();
    record.files[next++] = tokens.bin;
    record.files[next++] = tokens.idx;
    record.files.push_back(loss.bin);
    record.files.push_back(loss.idx);
  }
  if (!train.numbers.rewards.empty())
    for (const auto& [split, name] : {std::pair{&train, text::kDatasetFiles[text::kChatFiles]},
                                      {&val, text::kDatasetFiles[text::kChatFiles + 1]}}) {
      formats::DigestWriter file(staging.path() / name);
      file.write(print(split->numbers));
      record.files.push_back(file.finish());
    }
  write_record(staging.path(), options.tokenizer, record);
  staging.publish();
  return text::open_dataset(options.out);
}

config::Compares compared_by(const text::Dataset& dataset) {
  const text::TokenRange first = dataset.train_loss->document(0);
  std::vector<std::int32_t> marks(static_cast<std::size_t>(first.count));
  dataset.train_loss->read(first.first, std::span<std::int32_t>(marks));
  switch (static_cast<config::Answer>(std::ranges::max(marks))) {
    case config::Answer::kWanted:
    case config::Answer::kUnwanted: return config::Compares::kLabels;
    case config::Answer::kSampled: return config::Compares::kRewards;
    default: return config::Compares::kPairs;
  }
}

void check_preferences(const text::Dataset& dataset, config::PreferenceLoss loss) {
  struct Kind {
    const char *compared, *loss;
  };
  const auto kind = [](config::Compares compares) -> Kind {
    switch (compares) {
      case config::Compares::kPairs: return {"pairs of answers", "dpo"};
      case config::Compares::kLabels: return {"answers with labels", "kto"};
      case config::Compares::kRewards: break;
    }
    return {"answers with rewards", "grpo"};
  };
  const config::Compares found = compared_by(dataset);
  if (found == config::compares(loss)) return;
  fail(ErrorKind::kUsage,
       "preference.loss={} compares {}, and the data have {}; set preference.loss={}, or data.path "
       "to other files",
       config::name(loss), kind(config::compares(loss)).compared, kind(found).compared,
       kind(found).loss);
}

}  // namespace trireme::chat
