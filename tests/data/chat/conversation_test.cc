#include "trireme/data/chat/conversation.h"

#include <gmock/gmock.h>

#include "trireme/base/error.h"

namespace trireme::chat::conversation_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// "user:Hi, assistant*:Hello" with a star for what is trained.
std::string read(std::string_view json) {
  std::string all;
  for (const Message& message : read_conversation(json, "a.jsonl:7")) {
    const char* const role = message.role == Role::kSystem ? "s"
                             : message.role == Role::kUser ? "u"
                                                           : "a";
    all += fmt::format("{}{}{}:{}{}", all.empty() ? "" : ", ", role, message.trained ? "*" : "",
                       message.reasoning ? "(" + *message.reasoning + ")" : "", message.content);
  }
  return all;
}

std::string refusal(std::string_view json) {
  try {
    return "taken: " + read(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
}

TEST(Conversation, IsReadInAllForms) {
  EXPECT_EQ(
      read(R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"},
                                  {"role": "assistant", "content": "Hello"}], "id": 3})"),
      "s:S, u:Hi, a*:Hello");
  EXPECT_EQ(
      read(
          R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]})"),
      "u:Hi, a*:Yo");
  EXPECT_EQ(read(R"({"prompt": "Hi", "completion": "Yo"})"), "u:Hi, a*:Yo");
  // Of a prompt no answer has loss.
  EXPECT_EQ(
      read(R"({"prompt": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"},
                                {"role": "user", "content": "3"}],
                     "completion": [{"role": "assistant", "content": "4"}]})"),
      "u:1, a:2, u:3, a*:4");
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                                  {"type": "text", "text": "b"}]},
                                  {"role": "assistant", "content": "4", "reasoning_content": "add"}]})"),
            "u:ab, a*:(add)4");
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "1"},
                                  {"role": "assistant", "content": "2", "weight": 0},
                                  {"role": "assistant", "content": "3", "weight": 1}]})"),
            "u:1, a:2, a*:3");
}

TEST(Conversation, RefusalsNamePlaceAndKey) {
  const struct {
    const char* json;
    const char* key;
  } cases[] = {
      {R"({"messages": [)", "a.jsonl:7"},
      {R"([1])", "a.jsonl:7"},
      {R"({"text": "x"})", "needs messages, conversations, or prompt and completion"},
      {R"({"prompt": "x"})", "needs messages, conversations, or prompt and completion"},
      {R"({"messages": []})", "no message"},
      {R"({"messages": [], "completion": "x"})", "has two of messages, conversations"},
      {R"({"messages": [{"role": "assistant", "content": "x", "weight": 0.5}]})", "weight is 0.5"},
      {R"({"messages": "x"})", "messages"},
      {R"({"messages": [5]})", "messages.0"},
      {R"({"messages": [{"content": "x"}]})", "role"},
      {R"({"messages": [{"role": "user"}]})", "content"},
      {R"({"messages": [{"role": "user", "content": null}]})", "content"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "content"},
      {R"({"messages": [{"role": "pirate", "content": "x"}]})", R"(role is "pirate")"},
      {R"({"messages": [{"role": "tool", "content": "x"}]})", R"(role is "tool")"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})", R"(type is "image")"},
      {R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}]})",
       "tool_calls"},
      {R"({"conversations": [{"from": "human", "content": "x"}]})", "value"},
      {R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f"}]})", "tools"},
      {R"({"prompt": "x", "completion": 3})", "completion"},
  };
  for (const auto& [json, key] : cases)
    EXPECT_THAT(refusal(json), AllOf(StartsWith("a.jsonl:7"), HasSubstr(key))) << json;
}

}  // namespace
}  // namespace trireme::chat::conversation_test
