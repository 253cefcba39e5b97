// Conversations, in every template, compared answers, rollouts, and what data.chat says of them.
#include "tests/fuzz/target.h"
#include "trireme/config/chat.h"
#include "trireme/data/chat/conversation.h"
#include "trireme/data/chat/recognise.h"
#include "trireme/data/chat/rollouts.h"
#include "trireme/data/chat/template.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  chat::recognised(text);
  fuzz::takes([&] {
    const config::Chat chat = config::parse_chat(std::string(text));
    fuzz::expect(config::parse_chat(config::print(chat)) == chat, "prints something else");
  });
  fuzz::takes([&] {
    const chat::Preferred sample = chat::read_preferred(text, "f");
    for (const chat::Conversation& answer : sample.answers)
      fuzz::expect(sample.whole(answer).size() > answer.size(), "an answer without a prompt");
  });
  fuzz::takes([&] {
    const chat::RolloutLine line = chat::read_rollouts(text, "f", 256);
    fuzz::expect(!line.answers.empty(), "a group without an answer");
    for (const chat::Rollout& answer : line.answers)
      fuzz::expect(answer.ids.empty() != answer.answer.empty(), "neither text nor tokens");
  });
  chat::Conversation conversation;
  if (!fuzz::takes([&] { conversation = chat::read_conversation(text, "f"); })) return 0;
  for (const chat::Template& shape : chat::templates())
    for (const bool prompt : {false, true})
      fuzz::takes([&] {
        const chat::Style style{.prompt = prompt, .date = "2026-03-09"};
        fuzz::expect(!chat::text_of(chat::render(shape, conversation, style)).empty(), "no text");
      });
  return 0;
}
