// The ids of questions about pictures and of their answers: bytes, or the tokens of a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/chat/question.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::loaders {

// Mark of a picture in a text.
inline constexpr std::string_view kImageMark = "<image>";

class Words {
 public:
  // Of a resolved job: those of data.tokenizer, which is read. Throws Error{kUsage} for a tokenizer with more ids than
  // model.vocab, and for vlm.tokens that it does not have, of which the first is no special token, or that are bytes.
  // The same for a template of data.chat that ends answers with another token.
  explicit Words(const config::Job& job);
  // The same with a tokenizer at hand.
  Words(const config::Job& job, const text::Tokenizer& tokenizer);

  struct Ids {
    std::vector<std::int64_t> asked;   // with one id for each picture, image()
    std::vector<std::int64_t> answer;  // with its end
  };
  // Pictures are at the marks of the question, or before it where it has none. A tokenizer reads question and answer as
  // one text, in the template of data.chat if it names one, with the tokens that begin a prompt, unless the question's
  // tokens would not be those that it has alone.
  // Throws Error{kData} beginning with `what` for another number of marks, and for text in which the image token is
  // spelled where no picture is.
  Ids ids(std::string_view question, std::string_view answer, std::int64_t pictures,
          const std::string& what) const;
  // The question's alone.
  std::vector<std::int64_t> asked(std::string_view question, std::int64_t pictures,
                                  const std::string& what) const;

  std::int64_t image() const { return image_; }
  // Whether an answer ends with this id.
  bool ends(std::int64_t id) const;
  // None: bytes.
  const std::optional<text::Tokenizer>& tokenizer() const { return tokenizer_; }
  // Digest of the tokenizer; empty: bytes.
  std::string vocabulary() const { return tokenizer_ ? tokenizer_->digest() : ""; }

 private:
  // As a tokenizer reads it, with the image token at each mark.
  std::string spelled(std::string_view question, std::int64_t pictures,
                      const std::string& what) const;
  // Ids of a text with the tokens that begin a prompt.
  std::vector<std::int32_t> read(const std::string& text) const;
  // Ids after those of the question `asked`, of which `before` is the text.
  std::vector<std::int64_t> read_answer(const std::string& before, const std::string& answer,
                                        const std::vector<std::int64_t>& asked) const;
  std::vector<std::int64_t> asked_in(const std::string& text, std::int64_t pictures,
                                     const std::string& what) const;

  std::int64_t image_, end_;
  std::optional<text::Tokenizer> tokenizer_;
  std::string mark_{kImageMark};  // the image token's text
  std::optional<chat::QuestionFrame> frame_;
};

// Samples of other ids are other data: adds the digest of their tokenizer, if they have one.
void add_vocabulary(const std::string& vocabulary, Sources& sources);

}  // namespace trireme::loaders
