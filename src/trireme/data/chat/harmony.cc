// Harmony, the form of gpt-oss: channels within an assistant's turn.
#include "trireme/base/error.h"
#include "trireme/data/chat/template.h"

namespace trireme::chat {
namespace {

std::string in_channel(std::string_view channel, std::string_view text, std::string_view close) {
  return fmt::format("<|start|>assistant<|channel|>{}<|message|>{}{}", channel, text, close);
}

// An answer is its last turn's thoughts, which earlier turns leave out, and what it says.
void add_answer(const Message& message, bool last, std::vector<Segment>& out) {
  for (const std::string& text : {message.content, message.reasoning.value_or("")})
    for (const char* channel : {"analysis", "final"})
      if (text.find(fmt::format("<|channel|>{}<|message|>", channel)) != text.npos)
        fail(ErrorKind::kData,
             "an answer has a <|channel|> tag, which template harmony writes itself. Put thoughts "
             "into the key thinking");
  if (last && message.reasoning)
    out.push_back({in_channel("analysis", *message.reasoning, "<|end|>"), message.trained});
  out.push_back(
      {in_channel("final", message.content, last ? "<|return|>" : "<|end|>"), message.trained});
}

}  // namespace

std::vector<Segment> write_harmony(const Template&, const Conversation& all, const Style& style) {
  if (style.date.empty())
    fail(ErrorKind::kUsage,
         "chat template harmony writes today's date; add it, such as harmony date=2026-03-09");
  std::vector<Segment> out = {{fmt::format(
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
      "Knowledge cutoff: 2024-06\nCurrent date: {}\n\nReasoning: medium\n\n# Valid channels: "
      "analysis, commentary, final. Channel must be included for every message.<|end|>",
      style.date)}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Message& message = all[i];
    const bool last = i + 1 == all.size() && !style.prompt;
    switch (message.role) {
      case Role::kSystem:
        if (i > 0)
          fail(ErrorKind::kData,
               "message {} has role system, which template harmony has at the beginning only", i);
        if (!message.content.empty())
          out.push_back({fmt::format("<|start|>developer<|message|># Instructions\n\n{}\n\n<|end|>",
                                     message.content)});
        break;
      case Role::kUser:
        out.push_back({fmt::format("<|start|>user<|message|>{}<|end|>", message.content)});
        break;
      case Role::kAssistant: add_answer(message, last, out);
    }
  }
  if (style.prompt) out.push_back({"<|start|>assistant"});
  return out;
}

}  // namespace trireme::chat
