// A rendered conversation as tokens, with those that have loss.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/data/chat/template.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::chat {

struct Encoded {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> trained;  // of each id 1 or 0
};

// A token is trained if any of its bytes is. Tokens at the borders of messages are those of the whole text, as the model
// reads it. Throws Error{kUsage} for a special token that the tokenizer lacks.
Encoded encode(const std::vector<Segment>& segments, const text::Tokenizer& tokenizer);

}  // namespace trireme::chat
