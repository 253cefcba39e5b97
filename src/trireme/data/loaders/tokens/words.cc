#include "trireme/data/loaders/tokens/words.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/dataset.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/formats/shown.h"

namespace trireme::loaders {
namespace {

text::Tokenizer tokenizer_of(const config::Data& data) {
  const text::TokenizerChoice choice = text::parse_tokenizer(data.tokenizer);
  return choice.by == text::TokenizerChoice::By::kFile ? text::read_vocabulary(choice.file)
                                                       : text::Tokenizer::bytes();
}

// The text around the places of pictures, one part more than there are.
std::vector<std::string_view> parts_of(std::string_view text, std::int64_t pictures,
                                       const std::string& what) {
  std::vector<std::string_view> parts;
  for (std::size_t mark = text.find(kImageMark); mark != text.npos; mark = text.find(kImageMark)) {
    parts.push_back(text.substr(0, mark));
    text.remove_prefix(mark + kImageMark.size());
  }
  const std::int64_t marks = std::ssize(parts);
  if (marks != 0 && marks != pictures)
    fail(ErrorKind::kData, "{}: {} in its question {} times, for {} pictures", what, kImageMark,
         marks, pictures);
  parts.resize(static_cast<std::size_t>(pictures));
  parts.push_back(text);
  return parts;
}

void append_bytes(std::string_view text, std::vector<std::int64_t>& ids) {
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
}

[[noreturn]] void refuse_spelling(const std::string& what, const std::string& part,
                                  const std::string& mark, std::int64_t id) {
  fail(ErrorKind::kData,
       "{}: the {} has the image token {} (id {}) where no picture is; write it otherwise, and "
       "pictures of a question as {}",
       what, part, formats::shown(mark), id, kImageMark);
}

}  // namespace

Words::Words(const config::Job& job) : Words(job, tokenizer_of(job.data)) {}

Words::Words(const config::Job& job, const text::Tokenizer& tokenizer)
    : image_(job.vlm.tokens[0]), end_(job.vlm.tokens[1]) {
  constexpr std::int64_t kBytes = 256;
  const std::int64_t known = tokenizer.vocab_size();
  const std::string& named = job.data.tokenizer;
  const auto ids = fmt::format("vlm.tokens=[{}, {}]", image_, end_);
  if (std::string_view(tokenizer.kind()) == "bytes") {
    if (image_ < kBytes || end_ < kBytes)
      fail(ErrorKind::kUsage,
           "{}: ids below 256 are bytes where data.tokenizer=bytes; name the tokenizer that has "
           "these ids",
           ids);
    return;
  }
  if (known > job.model.vocab)
    fail(ErrorKind::kUsage,
         "data.tokenizer={}: has {} ids, the model knows model.vocab={}; name the model's own "
         "tokenizer",
         named, known, job.model.vocab);
  if (end_ >= known)
    fail(ErrorKind::kUsage,
         "{}: data.tokenizer={} has {} ids, and none is {}; set the second to the id that ends a "
         "text",
         ids, named, known, end_);
  const std::optional<std::string> mark = text::added_text(tokenizer, image_);
  if (!mark)
    fail(ErrorKind::kUsage,
         "{}: id {} is no special token of data.tokenizer={}, so no text can have it at a "
         "picture's "
         "place; set the first to the image token of the tokenizer, or add one to its added_tokens",
         ids, image_, named);
  mark_ = *mark;
  tokenizer_ = tokenizer;
  if (job.data.chat.empty()) return;
  frame_.emplace(job.data.chat);
  const std::vector<std::int32_t> ended = tokenizer.encode(frame_->answered("?", "a"));
  if (std::ranges::count(ended, end_) == 0)
    fail(
        ErrorKind::kUsage,
        "{}: the template data.chat={} does not end an answer with id {}; set the second to the id "
        "of its end, or name the template of this model",
        ids, job.data.chat, end_);
}

std::vector<std::int64_t> Words::asked(std::string_view question, std::int64_t pictures,
                                       const std::string& what) const {
  if (tokenizer_) {
    const std::string text = spelled(question, pictures, what);
    return asked_in(frame_ ? frame_->asked(text) : text, pictures, what);
  }
  std::vector<std::int64_t> ids;
  const std::vector<std::string_view> parts = parts_of(question, pictures, what);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) ids.push_back(image_);
    append_bytes(parts[i], ids);
  }
  return ids;
}

Words::Ids Words::ids(std::string_view question, std::string_view answer, std::int64_t pictures,
                      const std::string& what) const {
  Ids ids;
  if (!tokenizer_) {
    ids.asked = asked(question, pictures, what);
    append_bytes(answer, ids.answer);
    ids.answer.push_back(end_);
    return ids;
  }
  const std::string spelled_question = spelled(question, pictures, what);
  const std::string before = frame_ ? frame_->asked(spelled_question) : spelled_question;
  ids.asked = asked_in(before, pictures, what);
  ids.answer = read_answer(
      before,
      frame_ ? frame_->answered(spelled_question, std::string(answer)) : std::string(answer),
      ids.asked);
  if (std::ranges::count(ids.answer, image_) > 0) refuse_spelling(what, "answer", mark_, image_);
  if (frame_ && std::ranges::count(ids.answer, end_) > 1)
    fail(ErrorKind::kData,
         "{}: the answer has the token {} (id {}), with which data.chat ends answers; write it "
         "without",
         what, formats::shown(text::added_text(*tokenizer_, end_).value_or("")), end_);
  if (frame_) ids.answer.erase(std::ranges::find(ids.answer, end_), ids.answer.end());
  ids.answer.push_back(end_);
  return ids;
}

std::vector<std::int32_t> Words::read(const std::string& text) const {
  return frame_ && frame_->begins() ? tokenizer_->encode(text) : tokenizer_->encode_prompt(text);
}

std::vector<std::int64_t> Words::read_answer(const std::string& before, const std::string& answer,
                                             const std::vector<std::int64_t>& asked) const {
  const std::vector<std::int32_t> both = read(before + answer);
  const auto [asked_end, rest] = std::ranges::mismatch(asked, both);
  if (asked_end == asked.end()) return {rest, both.end()};
  const std::vector<std::int32_t> alone = tokenizer_->encode(answer);
  return {alone.begin(), alone.end()};
}

bool Words::ends(std::int64_t id) const {
  return id == end_ || (tokenizer_ && std::ranges::count(tokenizer_->ends(), id) > 0);
}

std::string Words::spelled(std::string_view question, std::int64_t pictures,
                           const std::string& what) const {
  const chat::Pictures around = frame_ ? frame_->pictures() : chat::Pictures{.next = ""};
  const bool marked = question.find(kImageMark) != question.npos;
  const std::string picture =
      fmt::format("{}{}{}{}", around.before, mark_, around.after, marked ? "" : around.next);
  std::string text;
  const std::vector<std::string_view> parts = parts_of(question, pictures, what);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += picture;
    text += parts[i];
  }
  return text;
}

std::vector<std::int64_t> Words::asked_in(const std::string& text, std::int64_t pictures,
                                          const std::string& what) const {
  const std::vector<std::int32_t> ids = read(text);
  if (std::ranges::count(ids, image_) != pictures) refuse_spelling(what, "question", mark_, image_);
  return {ids.begin(), ids.end()};
}

void add_vocabulary(const std::string& vocabulary, Sources& sources) {
  if (vocabulary.empty()) return;
  sources.vocabulary = vocabulary;
  sources.digest += fmt::format(" tokenizer {}", vocabulary);
}

}  // namespace trireme::loaders
