// Questions about moving squares as samples of a vision-language model that sees clips.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

inline constexpr char kClipQuestion[] = "which way?";

// The direction that squares move in: three digits of degrees, from right by down.
std::string clip_answer(std::int64_t direction);

// What model::vlm_spec reads of the clips with these numbers: the tokens of each, then the question, and the answer with an
// end of its own, which alone are targets.
std::vector<at::Tensor> clip_questions(const config::Job& job,
                                       std::span<const std::int64_t> numbers);

// Weighs by the tokens of answers. Throws Error{kUsage} where model.seq_len has no room for clip and question.
Sources open_clip_questions(const config::Job& job);

}  // namespace trireme::loaders
