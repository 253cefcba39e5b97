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
}

std::vector<std::int64_t> Words::asked(std::string_view question, std::int64_t pictures,
                                       const std::string& what) const {
  if (tokenizer_) return asked_in(spelled(question, pictures, what), pictures, what);
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
  std::string text = spelled(question, pictures, what);
  ids.asked = asked_in(text, pictures, what);
  text += answer;
  const std::vector<std::int32_t> both = tokenizer_->encode_prompt(text);
  const auto [asked_end, rest] = std::ranges::mismatch(ids.asked, both);
  if (asked_end == ids.asked.end()) {
    ids.answer.assign(rest, both.end());
  } else {
    const std::vector<std::int32_t> alone = tokenizer_->encode(answer);
    ids.answer.assign(alone.begin(), alone.end());
  }
  if (std::ranges::count(ids.answer, image_) > 0) refuse_spelling(what, "answer", mark_, image_);
  ids.answer.push_back(end_);
  return ids;
}

bool Words::ends(std::int64_t id) const {
  return id == end_ || (tokenizer_ && std::ranges::count(tokenizer_->ends(), id) > 0);
}

std::string Words::spelled(std::string_view question, std::int64_t pictures,
                           const std::string& what) const {
  std::string text;
  const std::vector<std::string_view> parts = parts_of(question, pictures, what);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += mark_;
    text += parts[i];
  }
  return text;
}

std::vector<std::int64_t> Words::asked_in(const std::string& text, std::int64_t pictures,
                                          const std::string& what) const {
  const std::vector<std::int32_t> read = tokenizer_->encode_prompt(text);
  if (std::ranges::count(read, image_) != pictures)
    refuse_spelling(what, "question", mark_, image_);
  return {read.begin(), read.end()};
}

}  // namespace trireme::loaders
