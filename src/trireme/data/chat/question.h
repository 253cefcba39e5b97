// A question about pictures and its answer in a chat template.
#pragma once

#include <string>
#include <string_view>

#include "trireme/data/chat/template.h"

namespace trireme::chat {

class QuestionFrame {
 public:
  // As data.chat says, with the name of a template. Throws Error{kUsage} for a template whose messages are encoded by
  // themselves, in which no picture has a token, and for options that questions do not have.
  explicit QuestionFrame(const std::string& chosen);

  const Pictures& pictures() const { return shape_->pictures; }
  // The text is without the special token that begins every text.
  bool begins() const { return !shape_->turns.begin.empty(); }
  // The text up to where the answer begins.
  std::string asked(const std::string& question) const;
  // The text after it, with what ends an answer.
  std::string answered(const std::string& question, const std::string& answer) const;

 private:
  const Template* shape_;
  Style style_{.prompt = true};
};

}  // namespace trireme::chat
