#include "trireme/data/chat/conversation.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/formats/json_fields.h"
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

// What has a meaning that no template here can render.
void refuse_keys(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (fields.has(key) && !fields.any(key).is_null() && !fields.any(key).empty())
      fail(ErrorKind::kData, "{}: has {}, which data.source=chat does not read; remove the key",
           fields.where(), key);
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

// A prompt or completion: a string of this role, or messages.
void add_side(const JsonFields& sample, const char* key, Role role, Conversation& all) {
  if (sample.has(key) && sample.any(key).is_array()) return add_messages(sample, key, kOpenAi, all);
  all.push_back({.role = role, .content = sample.string(key), .trained = role == Role::kAssistant});
}

}  // namespace

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

}  // namespace trireme::chat
