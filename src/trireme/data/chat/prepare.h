// Files of conversations as a token data set.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/sections/preference.h"
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
  bool forbid = false;       // special tokens within messages
  double validation = 0;     // held-out conversations: a fraction or a number (base/held_out.h)
  bool preferences = false;  // lines are samples of read_preferred() or of read_rollouts()
};

// Writes the conversations to `out`, one document each, with the tokens that have loss. Which ones are held out
// depends on their text alone, so that equal ones are never divided. Throws Error{kData} naming file, line and key.
// Of preferences two documents a line, whose tokens of answers have the number of their config::Answer: chosen and
// rejected, or the answer with a label and its prompt with the answer of the split's next line. Of rollouts one document
// an answer, and RolloutFile has their numbers; a group is held out as a whole, and `validation` counts groups.
text::Dataset prepare(const PrepareOptions& options);

// Of a data set of compared or rewarded answers.
config::Compares compared_by(const text::Dataset& dataset);
// Throws Error{kUsage} where a data set's samples are not those that the loss compares.
void check_preferences(const text::Dataset& dataset, config::PreferenceLoss loss);

}  // namespace trireme::chat
