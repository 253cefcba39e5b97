// Questions about images as samples of a vision-language model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/made_up.h"
#include "trireme/data/source.h"
#include "trireme/media/samples.h"

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

// What is asked about a picture.
struct Asked {
  at::Tensor image;  // float [3, height, width] in [-1, 1]
  std::string question, answer;
};
// One of the "questions" in the .json beside a picture, by the draws or, without, by the sample's number. Throws
// Error{kData}.
Asked asked_about(const media::Sample& sample, Draws* draws);
// Of one question, without the dim of samples but for tiles: what merged_questions() takes. Throws Error{kData} beginning with `what` where
// model.seq_len has no room for it.
std::vector<at::Tensor> question_rows(const config::Job& job, const Asked& asked,
                                      const std::string& what);
// Several of them as questions_batch() gives them.
std::vector<at::Tensor> merged_questions(const config::Job& job,
                                         const std::vector<std::vector<at::Tensor>>& questions);
// Tokens with loss of question_rows().
double answered_tokens(const std::vector<at::Tensor>& rows);
// Takes all loss from it.
void forget_answer(std::vector<at::Tensor>& rows);

// Weighs by the tokens of answers. Throws Error{kUsage} where model.seq_len has no room for the longest question.
Sources open_questions(const config::Job& job);

}  // namespace trireme::data
