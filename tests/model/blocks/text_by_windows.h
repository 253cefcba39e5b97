// Text generation that keeps no past, to compare with.
#pragma once

#include "trireme/model/blocks/generate.h"

namespace trireme::harness {

// The new tokens; each repeats the whole window.
inline std::vector<std::int64_t> text_by_windows(const exec::Model& model,
                                                 const blocks::GenerateArgs& args) {
  std::vector<std::int64_t> text = args.prompt;
  for (std::int64_t index = 0; index < args.max_tokens; ++index)
    text.push_back(
        blocks::sample(blocks::next_logits(model, text, args.context), args.sampling, index));
  return {text.begin() + static_cast<std::ptrdiff_t>(args.prompt.size()), text.end()};
}

}  // namespace trireme::harness
