// Questions about images as samples of a vision-language model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/source.h"

namespace trireme::data {

// What arch::vlm_spec reads of the questions with these numbers: text as bytes, each image as its tiles in the place
// that its tokens have in the text, answers ended by a token of their own, which alone are targets. Tiles are the whole
// image, then the grid that it is fitted into, by rows. Rows of a grid that the image does not cover have no tokens
// where a tile's tokens keep their places. Without any image there is one blank tile.
std::vector<at::Tensor> questions_batch(const config::Job& job,
                                        std::span<const std::int64_t> numbers);

// The same of one question: an image, float [3, height, width] in [-1, 1], or undefined, the text behind it and the tokens
// that have been answered so far. Not filled up, without targets.
std::vector<at::Tensor> prompt_batch(const config::Job& job, const at::Tensor& image,
                                     const std::string& text,
                                     const std::vector<std::int64_t>& answered);

// Weighs by the tokens of answers. Throws Error{kUsage} where model.seq_len has no room for the longest question.
Sources open_questions(const config::Job& job);

}  // namespace trireme::data
