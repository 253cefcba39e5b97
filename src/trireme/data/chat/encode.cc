#include "trireme/data/chat/encode.h"

#include <string>

namespace trireme::chat {
namespace {

using Kind = Segment::Kind;

// Segments in a row as one text, and of each of its bytes whether it is trained.
struct WholeText {
  std::string text, trained;
};

void append_tokens(const WholeText& whole, const text::Tokenizer& tokenizer, Encoded& out) {
  std::vector<text::Range> ranges;
  const std::vector<std::int32_t> ids = tokenizer.encode_with_ranges(whole.text, ranges);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t size = ranges[i].end - ranges[i].begin;
    const bool trained =
        std::string_view(whole.trained).substr(ranges[i].begin, size).find('1') != std::string::npos;
    out.ids.push_back(ids[i]);
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
    append_tokens(whole, tokenizer, out);
  }
  return out;
}

}  // namespace trireme::chat
