// Cuts text into words, within which a model finds tokens: a tokenizer.json's "pre_tokenizer".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/data/text/tokenizer/aligned.h"

namespace trireme::text {

// A text and its words, in order; text outside of them is left out.
struct Words {
  Aligned text;
  std::vector<Range> ranges;
};

// Cuts every word further, or rewrites it.
using PreTokenizer = std::function<void(Words&)>;

// The steps of a "pre_tokenizer" in order.
struct PreTokenizers {
  std::vector<PreTokenizer> steps;
  bool byte_level =
      false;  // ends with ByteLevel: symbols are bytes, and entries of the vocabulary spell them
  bool needs_sources = false;  // asks where a word lies in the original text
};

// Reads null, Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation,
// BertPreTokenizer and CharDelimiterSplit. Anything else is Error{kData} naming it and beginning with `what`.
PreTokenizers read_pre_tokenizers(const Json& json, const std::string& what);

}  // namespace trireme::text
