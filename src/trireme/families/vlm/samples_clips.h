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

// Inputs of model::vlm_spec for the clips with these numbers: the tokens of each, then the question, and the answer
// with an end token of its own. Only the answer is a target.
std::vector<at::Tensor> clip_questions(const config::Job& job,
                                       std::span<const std::int64_t> numbers);

// Weighs by the tokens of answers. Throws Error{kUsage} if model.seq_len has no space for clip and question.
Sources open_clip_questions(const config::Job& job);

}  // namespace trireme::loaders
