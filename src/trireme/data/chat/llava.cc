// LLaVA's templates: Vicuna's of 1.5, and that of 1.6 with Mistral.
#include "trireme/base/error.h"
#include "trireme/data/chat/template.h"

namespace trireme::chat {

// A question between `open` and `middle`, then `assistant` and the answer with a space before it and `close` after it.
std::vector<Segment> write_llava(const Template& shape, const Conversation& all,
                                 const Style& style) {
  const Turns& turns = shape.turns;
  std::vector<Segment> out;
  std::size_t first = 0;
  if (all[0].role == Role::kSystem) {
    if (turns.system == Turns::System::kRefused)
      fail(ErrorKind::kData,
           "template {} has no system role. Put its text into the first user message", shape.name);
    out.push_back({all[first++].content + " "});
  }
  for (std::size_t i = first; i < all.size(); ++i) {
    const Message& message = all[i];
    const bool asks = (i - first) % 2 == 0;
    if (message.role != (asks ? Role::kUser : Role::kAssistant))
      fail(ErrorKind::kData,
           "template {} needs roles that alternate user, assistant, user, ...; message {} is "
           "another",
           shape.name, i);
    if (message.reasoning)
      fail(ErrorKind::kData, "template {} has no place for the reasoning of message {}", shape.name,
           i);
    if (asks) {
      out.push_back({fmt::format("{}{}{}", turns.open, message.content, turns.middle)});
    } else {
      out.push_back({std::string(turns.assistant)});
      out.push_back({fmt::format(" {}{}", message.content, turns.close), message.trained});
    }
  }
  if (style.prompt) out.push_back({std::string(turns.assistant)});
  return out;
}

}  // namespace trireme::chat
