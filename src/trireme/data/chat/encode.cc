#include "trireme/data/chat/encode.h"

#include <string>
#include <string_view>

namespace trireme::chat {
namespace {

using Kind = Segment::Kind;

// Segments in a row as one text, and of each of its bytes whether it is trained.
struct WholeText {
  std::string text, trained;
};

void append_tokens(const WholeText& whole, const text::Tokenizer& tokenizer,
                   text::Specials specials, Encoded& out) {
  const std::string_view marks = whole.trained;
  for (const text::TokenSpan& token : tokenizer.encode_spans(whole.text, specials)) {
    const bool trained = marks.substr(token.begin, token.end - token.begin).find('1') != marks.npos;
    out.ids.push_back(token.id);
    out.trained.push_back(trained ? 1 : 0);
  }
}

}  // namespace

Encoded encode(const std::vector<Segment>& segments, const text::Tokenizer& tokenizer) {
  Encoded out;
  for (std::size_t i = 0; i < segments.size();) {
    const Kind kind = segments[i].kind;
    if (kind == Kind::kSpecial) {
      out.ids.push_back(tokenizer.added_token(segments[i].text));
      out.trained.push_back(segments[i].trained ? 1 : 0);
      ++i;
      continue;
    }
    WholeText whole;
    do {
      whole.text += segments[i].text;
      whole.trained.append(segments[i].text.size(), segments[i].trained ? '1' : '0');
      ++i;
    } while (kind == Kind::kText && i < segments.size() && segments[i].kind == Kind::kText);
    // Such a text has no special tokens: those of the template are segments with ids.
    append_tokens(whole, tokenizer,
                  kind == Kind::kAlone ? text::Specials::kPlainText : text::Specials::kRecognized,
                  out);
  }
  return out;
}

}  // namespace trireme::chat
