#include "trireme/data/text/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/formats/json_fields.h"

namespace trireme::text {
namespace {

constexpr char kContext[] = "query", kContextToo[] = "context";
constexpr char kAnswer[] = "gold", kAnswerToo[] = "answer";

Question question_of(std::string_view line, const std::string& where) {
  const Json json = parse_json(line, where);
  const formats::JsonFields fields(json, where);
  Question question;
  question.context = fields.string(fields.has(kContextToo) ? kContextToo : kContext);
  for (const Json& choice : fields.array("choices")) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty())
      fail(ErrorKind::kData, "{}: choices: needs texts that are not empty", where);
    question.choices.push_back(choice.get<std::string>());
  }
  if (question.choices.size() < 2)
    fail(ErrorKind::kData, "{}: choices: has {}; needs two or more", where,
         question.choices.size());
  question.answer = static_cast<std::size_t>(
      fields.integer(fields.has(kAnswerToo) ? kAnswerToo : kAnswer, 0,
                     static_cast<std::int64_t>(question.choices.size()) - 1));
  return question;
}

std::size_t characters(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

}  // namespace

std::vector<Question> read_questions(const Path& file) {
  const std::string text = read_file(file);
  std::vector<Question> questions;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") != line.npos)
      questions.push_back(question_of(line, fmt::format("{}:{}", file.string(), number)));
  }
  if (questions.empty())
    fail(ErrorKind::kData,
         "{}: holds no question; needs lines of JSON with query, choices and gold", file.string());
  return questions;
}

std::vector<Continuation> continuations(const Question& question, const Tokenizer& tokenizer) {
  const std::size_t last = question.context.find_last_not_of(" \t\n\r");
  const std::string context = question.context.substr(0, last == std::string::npos ? 0 : last + 1);
  const std::string spaces = question.context.substr(context.size());
  const std::size_t begin = tokenizer.encode_prompt(context).size();
  if (begin == 0)
    fail(ErrorKind::kData,
         "a question without context: this vocabulary has no token that begins a text; give it a "
         "context");
  std::vector<Continuation> all;
  for (const std::string& choice : question.choices) {
    const bool apart = spaces.empty() && choice.front() != ' ' && choice.front() != '\n';
    const std::vector<std::int32_t> ids =
        tokenizer.encode_prompt(context + spaces + (apart ? " " : "") + choice);
    all.push_back({.ids = {ids.begin(), ids.end()},
                   .begin = std::min(begin, ids.size() - 1),
                   .characters = characters(choice)});
  }
  return all;
}

}  // namespace trireme::text
