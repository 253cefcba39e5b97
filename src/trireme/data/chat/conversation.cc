#include "trireme/data/chat/conversation.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/chat/sides.h"
#include "trireme/formats/shown.h"

namespace trireme::chat {
namespace {

using formats::JsonFields;

// Names of the keys of a message: OpenAI's, ShareGPT's.
struct Keys {
  const char* role;
  const char* content;
};
constexpr Keys kOpenAi{"role", "content"}, kShareGpt{"from", "value"};

constexpr std::array<std::pair<std::string_view, Role>, 6> kRoles = {{
    {"system", Role::kSystem},
    {"developer", Role::kSystem},
    {"user", Role::kUser},
    {"human", Role::kUser},
    {"assistant", Role::kAssistant},
    {"gpt", Role::kAssistant},
}};

Role role_of(const JsonFields& message, const char* key) {
  const std::string name = message.string(key);
  const auto* const found =
      std::ranges::find(kRoles, std::string_view(name), &std::pair<std::string_view, Role>::first);
  if (found == kRoles.end())
    fail(ErrorKind::kData, "{}: {} is {}; needs system, user or assistant (ShareGPT: human, gpt)",
         message.where(), key, formats::shown(name));
  return found->second;
}

// Text of a message, which OpenAI also writes as a list of parts.
std::string content_of(const JsonFields& message, const char* key) {
  if (!message.has(key) || !message.any(key).is_array()) return message.string(key);
  std::string text;
  const Json& parts = message.array(key);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const JsonFields part(parts[i], fmt::format("{}: {}.{}", message.where(), key, i));
    if (const std::string type = part.string("type"); type != "text")
      fail(ErrorKind::kData, "{}: type is {}; needs text", part.where(), formats::shown(type));
    text += part.string("text");
  }
  return text;
}

// Of the loss of an answer: OpenAI's 0 or 1.
double weight_of(const JsonFields& message) {
  if (!message.has("weight") || message.any("weight").is_null()) return 1;
  const double weight = message.number("weight");
  if (weight != 0 && weight != 1)
    fail(ErrorKind::kData, "{}: weight is {}; needs 0 (no loss) or 1", message.where(), weight);
  return weight;
}

Message message_of(const JsonFields& fields, const Keys& keys) {
  refuse_keys(fields, {"tool_calls", "function_call"});
  Message message{.role = role_of(fields, keys.role), .content = content_of(fields, keys.content)};
  for (const char* key : {"reasoning_content", "thinking"})
    if (fields.has(key) && !fields.any(key).is_null()) message.reasoning = fields.string(key);
  message.trained = message.role == Role::kAssistant && weight_of(fields) != 0;
  return message;
}

void add_messages(const JsonFields& sample, const char* key, const Keys& keys, Conversation& all) {
  const Json& list = sample.array(key);
  for (std::size_t i = 0; i < list.size(); ++i)
    all.push_back(
        message_of(JsonFields(list[i], fmt::format("{}: {}.{}", sample.where(), key, i)), keys));
}

}  // namespace

void refuse_keys(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (fields.has(key) && !fields.any(key).is_null() && !fields.any(key).empty())
      fail(ErrorKind::kData, "{}: has {}, which is not read; remove the key", fields.where(), key);
}

void add_side(const JsonFields& sample, const char* key, Role role, Conversation& all) {
  if (sample.has(key) && sample.any(key).is_array()) return add_messages(sample, key, kOpenAi, all);
  all.push_back({.role = role, .content = sample.string(key), .trained = role == Role::kAssistant});
}

Conversation read_conversation(std::string_view json, const std::string& what) {
  const Json parsed = parse_json(json, what);
  const JsonFields sample(parsed, what);
  refuse_keys(sample, {"tools", "functions", "system"});
  Conversation all;
  if (sample.has("messages") + sample.has("conversations") + sample.has("completion") > 1)
    fail(ErrorKind::kData, "{}: has two of messages, conversations and completion; needs one",
         what);
  if (sample.has("messages")) {
    add_messages(sample, "messages", kOpenAi, all);
  } else if (sample.has("conversations")) {
    add_messages(sample, "conversations", kShareGpt, all);
  } else if (sample.has("prompt") && sample.has("completion")) {
    add_side(sample, "prompt", Role::kUser, all);
    for (Message& message : all) message.trained = false;
    add_side(sample, "completion", Role::kAssistant, all);
  } else {
    fail(ErrorKind::kData, "{}: needs messages, conversations, or prompt and completion", what);
  }
  if (all.empty()) fail(ErrorKind::kData, "{}: has no message", what);
  return all;
}

namespace {

// The answers of a sample as messages, each with its prompt if the lists have it.
std::vector<Conversation> sides_of(const JsonFields& sample) {
  std::vector<Conversation> sides;
  for (const char* key : {"chosen", "rejected"}) {
    add_side(sample, key, Role::kAssistant, sides.emplace_back());
    if (sides.back().empty()) fail(ErrorKind::kData, "{}: {} has no message", sample.where(), key);
  }
  return sides;
}

// Moves the longest common beginning of the answers into the prompt.
void split_prompt(const std::string& what, Preferred& sample) {
  Conversation &chosen = sample.answers[0], &rejected = sample.answers[1];
  const auto [end, other_end] = std::ranges::mismatch(chosen, rejected);
  if (end == chosen.end() || other_end == rejected.end())
    fail(ErrorKind::kData,
         "{}: {} is the beginning of the other answer, so nothing remains to compare; correct or "
         "remove the line",
         what, end == chosen.end() ? "chosen" : "rejected");
  sample.prompt.assign(chosen.begin(), end);
  const auto count = sample.prompt.size();
  for (Conversation* answer : {&chosen, &rejected})
    answer->erase(answer->begin(), answer->begin() + static_cast<std::ptrdiff_t>(count));
}

// A prompt that is given next to lists that begin with it.
void check_prompt(const Conversation& given, const std::string& what, const Preferred& sample) {
  const auto same = [](const Message& a, const Message& b) {
    return a.role == b.role && a.content == b.content;
  };
  const bool ends_with = given.size() <= sample.prompt.size() &&
                         std::equal(given.rbegin(), given.rend(), sample.prompt.rbegin(), same);
  if (!ends_with)
    fail(ErrorKind::kData,
         "{}: prompt is not what chosen and rejected begin with; correct it, or remove the key",
         what);
}

void check_answered(const std::string& what, const char* key, const Conversation& answer) {
  if (std::ranges::none_of(answer, &Message::trained))
    fail(ErrorKind::kData, "{}: {} has no answer of the assistant after the prompt", what, key);
}

}  // namespace

Conversation Preferred::whole(const Conversation& answer) const {
  Conversation all = prompt;
  for (Message& message : all) message.trained = false;
  all.insert(all.end(), answer.begin(), answer.end());
  return all;
}

Preferred read_preferred(std::string_view json, const std::string& what) {
  const Json parsed = parse_json(json, what);
  const JsonFields fields(parsed, what);
  refuse_keys(fields, {"tools", "functions", "system"});
  Preferred sample;
  if (fields.has("prompt")) add_side(fields, "prompt", Role::kUser, sample.prompt);
  const bool pair = fields.has("chosen") && fields.has("rejected");
  if (pair == (fields.has("completion") && fields.has("label")))
    fail(ErrorKind::kData,
         "{}: needs chosen and rejected, or prompt, completion and label, or prompt, completions "
         "and rewards",
         what);
  if (!pair) {
    if (sample.prompt.empty()) fail(ErrorKind::kData, "{}: prompt is missing or empty", what);
    add_side(fields, "completion", Role::kAssistant, sample.answers.emplace_back());
    sample.label = fields.boolean("label");
    check_answered(what, "completion", sample.answers[0]);
    return sample;
  }
  sample.answers = sides_of(fields);
  const auto begins = [](const Conversation& side) {
    return side.front().role != Role::kAssistant;
  };
  if (sample.prompt.empty() || std::ranges::all_of(sample.answers, begins)) {
    const Conversation given = std::exchange(sample.prompt, {});
    split_prompt(what, sample);
    check_prompt(given, what, sample);
  }
  if (sample.prompt.empty())
    fail(ErrorKind::kData,
         "{}: chosen and rejected do not begin with the same message, and there is no prompt",
         what);
  check_answered(what, "chosen", sample.answers[0]);
  check_answered(what, "rejected", sample.answers[1]);
  if (sample.answers[0] == sample.answers[1])
    fail(ErrorKind::kData, "{}: chosen and rejected are equal; correct or remove the line", what);
  return sample;
}

}  // namespace trireme::chat
