#include "trireme/data/chat/question.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/sections/chat.h"

namespace trireme::chat {
namespace {

Conversation question_of(const std::string& text) {
  return {{.role = Role::kUser, .content = text}};
}

}  // namespace

QuestionFrame::QuestionFrame(const std::string& chosen) {
  const config::Chat chat = config::parse_chat(chosen);
  shape_ = &find_template(chat.shape);
  style_.date = chat.date;
  if (chat.forbid || chat.longer != config::Chat::Long::kRefuse)
    fail(ErrorKind::kUsage,
         "data.chat={}: long and special are options of conversations; questions about pictures "
         "have a template and, if it needs one, a date",
         chosen);
  const auto alone = [](const Segment& segment) { return segment.kind != Segment::Kind::kText; };
  if (std::ranges::any_of(render(*shape_, question_of("?"), style_), alone))
    fail(ErrorKind::kUsage,
         "data.chat={}: template {} encodes each message by itself, where an image token is plain "
         "text; use llava_mistral, or write the marks of turns into the questions",
         chosen, shape_->name);
}

std::string QuestionFrame::asked(const std::string& question) const {
  return text_of(render(*shape_, question_of(question), style_));
}

std::string QuestionFrame::answered(const std::string& question, const std::string& answer) const {
  Conversation both = question_of(question);
  both.push_back({.role = Role::kAssistant, .content = answer, .trained = true});
  Style style = style_;
  style.prompt = false;
  const std::string whole = text_of(render(*shape_, both, style)), before = asked(question);
  TRIREME_CHECK(whole.starts_with(before), "template {} writes a question in two ways",
                shape_->name);
  return whole.substr(before.size());
}

}  // namespace trireme::chat
