// Mistral's templates v1, v2, v3 and v7: texts that are encoded by themselves, between special tokens by id.
#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/chat/template.h"

namespace trireme::chat {
namespace {

using Kind = Segment::Kind;

// Messages of one role in a row become one; system messages join the conversation's, or stay where they are (v7).
struct Joined {
  std::string system;
  Conversation turns;
};

Joined joined(const Conversation& all, bool keeps_system) {
  Joined out;
  bool any = false;
  for (const Message& message : all) {
    const bool system = message.role == Role::kSystem;
    if (system && !keeps_system) {
      out.system += (any ? "\n\n" : "") + message.content;
      any = true;
    } else if (system || out.turns.empty() || out.turns.back().role != message.role) {
      out.turns.push_back(message);
    } else {
      out.turns.back().content += "\n\n" + message.content;
      out.turns.back().trained = out.turns.back().trained || message.trained;
    }
  }
  return out;
}

void check_mistral(const Template& shape, const Joined& all) {
  const Conversation& turns = all.turns;
  const auto first = std::ranges::find_if(
      turns, [](const Message& message) { return message.role != Role::kSystem; });
  if (first == turns.end() || first->role == Role::kAssistant)
    fail(ErrorKind::kData, "template {} needs a user message before the first answer", shape.name);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const Message& message = turns[i];
    if (message.role == Role::kSystem && i > 0 && turns[i - 1].role == Role::kAssistant)
      fail(ErrorKind::kData, "template {} has no system message after an answer", shape.name);
    if (message.role == Role::kAssistant && message.content.empty())
      fail(ErrorKind::kData, "an answer is empty, which template {} refuses", shape.name);
    if (message.reasoning)
      fail(ErrorKind::kData, "template {} has no place for an answer's reasoning", shape.name);
  }
}

}  // namespace

std::vector<Segment> write_mistral(const Template& shape, const Conversation& conversation,
                                   const Style& style) {
  const bool brackets_are_text = shape.version == 1, system_turns = shape.version >= 7;
  const Joined all = joined(conversation, system_turns);
  check_mistral(shape, all);
  std::vector<Segment> out = {{"<s>", false, Kind::kSpecial}};
  const auto alone = [&](std::string text, bool trained) {
    out.push_back({std::move(text), trained, Kind::kAlone, shape.spaced});
  };
  const auto between = [&](const char* open, const std::string& text, const char* close) {
    if (brackets_are_text) return alone(fmt::format("{} {} {}", open, text, close), false);
    out.push_back({open, false, Kind::kSpecial});
    alone(text, false);
    out.push_back({close, false, Kind::kSpecial});
  };
  // The system's text goes before the first user's (v1) or the last one's (v2, v3).
  std::size_t place = 0;
  for (std::size_t i = 0; i < all.turns.size() && !brackets_are_text; ++i)
    if (all.turns[i].role == Role::kUser) place = i;
  for (std::size_t i = 0; i < all.turns.size(); ++i) {
    const Message& message = all.turns[i];
    switch (message.role) {
      case Role::kSystem: between("[SYSTEM_PROMPT]", message.content, "[/SYSTEM_PROMPT]"); break;
      case Role::kUser: {
        const bool here = i == place && !all.system.empty();
        between("[INST]", here ? all.system + "\n\n" + message.content : message.content,
                "[/INST]");
        break;
      }
      case Role::kAssistant:
        alone(message.content, message.trained);
        out.push_back({"</s>", message.trained, Kind::kSpecial});
    }
  }
  if (style.prompt && all.turns.back().role != Role::kUser)
    fail(ErrorKind::kData, "template {} needs a user message at the end of a prompt", shape.name);
  return out;
}

}  // namespace trireme::chat
