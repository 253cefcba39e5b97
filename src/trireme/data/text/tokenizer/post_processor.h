// Special tokens that a tokenizer.json puts around a text: its "post_processor".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/json.h"

namespace trireme::text {

// Ids before and after every document, such as a begin-of-text token.
struct AroundText {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

// Reads null, ByteLevel (which changes offsets only), TemplateProcessing, BertProcessing, RobertaProcessing, or a
// Sequence of these. Anything else is
// Error{kData} naming it and beginning with `what`.
AroundText read_post_processor(const Json& json, const std::string& what);

}  // namespace trireme::text
