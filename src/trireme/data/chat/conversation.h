// Conversations: messages of a system, a user and an assistant, as lines of JSON have them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::chat {

enum class Role { kSystem, kUser, kAssistant };

struct Message {
  Role role = Role::kUser;
  std::string content;
  std::optional<std::string>
      reasoning{};       // thoughts before the answer, where the sample keeps them apart
  bool trained = false;  // an answer that has loss
  bool operator==(const Message&) const = default;
};

using Conversation = std::vector<Message>;

// Reads one sample: {"messages": [{"role", "content"}]} (OpenAI), {"conversations": [{"from", "value"}]} (ShareGPT) or
// {"prompt", "completion"}, each a string or a list of messages. Every answer is trained unless its "weight" is 0,
// with "completion" only those in it. Throws Error{kData} that begins with `what` and names the key.
Conversation read_conversation(std::string_view json, const std::string& what);

// A sample of preferences: answers to one prompt, in which only they are trained.
struct Preferred {
  Conversation prompt;
  std::vector<Conversation> answers;  // chosen and rejected, or one with a label
  std::optional<bool> label{};        // of a single answer: whether it is wanted

  // The prompt with one of its answers.
  Conversation whole(const Conversation& answer) const;
};

// Reads {"prompt", "chosen", "rejected"} or {"prompt", "completion", "label"}, each a string or a list of messages.
// Without "prompt", or where both lists begin with its messages, the prompt is the longest common beginning of the
// lists. Throws Error{kData} that begins with `what` and names the key, also for equal answers.
Preferred read_preferred(std::string_view json, const std::string& what);

}  // namespace trireme::chat
