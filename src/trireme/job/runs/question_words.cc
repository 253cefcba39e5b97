#include "trireme/job/runs/question_words.h"

#include <array>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/config/sections/chat.h"
#include "trireme/data/chat/question.h"
#include "trireme/data/chat/recognise.h"
#include "trireme/data/text/dataset.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::runs {

std::optional<text::Tokenizer> words_of(const config::Data& data) {
  using By = text::TokenizerChoice::By;
  if (data.source != config::DataSource::kPairs && data.source != config::DataSource::kScenes)
    return std::nullopt;
  const text::TokenizerChoice choice = text::parse_tokenizer(data.tokenizer);
  if (choice.by == By::kBytes) return std::nullopt;
  if (choice.by != By::kFile)
    fail(ErrorKind::kUsage,
         "data.tokenizer={}: no vocabulary is learned from questions; set data.tokenizer to the "
         "model's directory or tokenizer.json, or to bytes",
         data.tokenizer);
  const text::Tokenizer read = text::read_vocabulary(choice.file);
  if (std::string_view(read.kind()) == "bytes") return std::nullopt;
  return read;
}

std::string template_of_questions(const std::string& chosen, const Path& vocabulary) {
  config::Chat chat = config::parse_chat(chosen);
  if (chat.shape == config::Chat{}.shape)
    chat.shape = chat::template_of_model(vocabulary, "data.chat");
  const std::string name = config::print(chat);
  chat::QuestionFrame{name};  // refuses others
  return name;
}

void add_words(const std::optional<text::Tokenizer>& words, config::DatasetFacts& facts) {
  if (!words) return;
  facts.vocab = words->vocab_size();
  facts.tokens = text::picture_tokens(*words);
}

LocatedDataset with_words(const config::Data& data, LocatedDataset located) {
  located.words = words_of(data);
  if (!located.words) {
    if (!data.chat.empty())
      fail(ErrorKind::kUsage,
           "data.chat={} with data.tokenizer={}: templates have special tokens; set data.tokenizer "
           "to the model's directory, or leave data.chat out",
           data.chat, data.tokenizer);
    return located;
  }
  add_words(located.words, located.facts);
  located.digest += fmt::format(" tokenizer {}", located.words->digest());
  located.what += fmt::format(", {} of {} ids", located.words->kind(), located.facts.vocab);
  if (data.chat.empty()) return located;
  located.chat = template_of_questions(data.chat, text::parse_tokenizer(data.tokenizer).file);
  located.digest += fmt::format(" template {}", located.chat);
  located.what += fmt::format(", template {}", located.chat);
  return located;
}

void check_words(const config::Job& job, const text::Tokenizer& words) {
  std::array<std::int64_t, 2> tokens = text::picture_tokens(words);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (job.vlm.tokens[i] >= 0) tokens[i] = job.vlm.tokens[i];
  const std::string& named = job.data.tokenizer;
  if (tokens[0] < 0)
    fail(ErrorKind::kUsage,
         "data.tokenizer={}: has no image token (<image>, <|image_pad|>, <image_soft_token> or "
         "[IMG]); add one to its added_tokens, or give the id of another special token as the "
         "first of vlm.tokens",
         named);
  if (!text::added_text(words, tokens[0]))
    fail(ErrorKind::kUsage,
         "vlm.tokens=[{}, {}]: id {} is no special token of data.tokenizer={}, so no text has it "
         "at a picture's place; name the tokenizer of these ids, or other ids",
         tokens[0], tokens[1], tokens[0], named);
  if (tokens[1] < 0)
    fail(ErrorKind::kUsage,
         "data.tokenizer={}: has no end of text, as eos_token_id of a generation_config.json in "
         "its directory says it; add that file, or give the id as the second of vlm.tokens",
         named);
}

}  // namespace trireme::runs
