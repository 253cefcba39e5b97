// Files of conversations as a token data set.
#pragma once

#include <string>
#include <vector>

#include "trireme/data/chat/template.h"
#include "trireme/data/text/dataset.h"
#include "trireme/data/text/sources.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::chat {

struct PrepareOptions {
  std::vector<text::SourceFile> sources;  // one conversation a line; empty lines are skipped
  Path out;
  text::Tokenizer tokenizer;
  const Template& shape;
  Style style{};
  bool forbid = false;    // special tokens within messages
  double validation = 0;  // held-out conversations: a fraction or a number (base/held_out.h)
};

// Writes the conversations to `out`, one document each, with the tokens that have loss. Which ones are held out
// depends on their text alone, so that equal ones are never divided. Throws Error{kData} naming file, line and key.
text::Dataset prepare(const PrepareOptions& options);

}  // namespace trireme::chat
