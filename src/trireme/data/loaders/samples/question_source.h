// Questions about images as samples of a vision-language model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/packing.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/samples.h"
#include "trireme/formats/tiling.h"

namespace trireme::loaders {

// Of one sample, without the dim of samples and not filled up: what model::vlm_spec reads of it, text as bytes, each image
// as its tiles in the place that its tokens have in the text, answers ended by a token of their own, which alone are
// targets. Tiles are the whole image, then the grid that it is fitted into, by rows. Rows of a grid that the image does
// not cover have no tokens where a tile's tokens keep their places.
using QuestionRow = std::vector<at::Tensor>;

// What is asked about pictures, which stand at the marks of the question, or before it where it has none.
struct Asked {
  std::vector<media::Image> images;
  std::string question, answer;
};
// One of the "questions" in the .json beside a picture, about this alone, by the draws or, without, by the sample's
// number. Throws Error{kData}.
Asked asked_about(const media::Sample& sample, Draws* draws);
// Throws Error{kData} beginning with `what` for another number of marks and where a row has no room for it.
QuestionRow question_row(const config::Job& job, const Asked& asked, const std::string& what);
// Several of them one after the other, whose positions begin anew with each; none of them: an empty row.
QuestionRow joined_questions(const config::Job& job, const std::vector<QuestionRow>& questions);
// Rows filled up to model.seq_len. Without any image there is one blank tile.
std::vector<at::Tensor> merged_questions(const config::Job& job,
                                         const std::vector<QuestionRow>& rows);
// Tokens with loss.
double answered_tokens(const QuestionRow& row);
// Takes all loss from it.
void forget_answer(QuestionRow& row);

// What a row has room for.
Outline row_room(const config::Job& job);
// What a sample takes of it, before there are pixels. Throws as question_row().
Outline question_outline(const config::Job& job, const std::string& question,
                         const std::string& answer, std::span<const formats::ImageSize> images,
                         const std::string& what);

// The made-up questions with these numbers, merged, one to a row.
std::vector<at::Tensor> questions_batch(const config::Job& job,
                                        std::span<const std::int64_t> numbers);

// Images, the text after them, or around them at its marks, and the tokens that have been answered so far, merged without
// targets and not filled up.
std::vector<at::Tensor> prompt_batch(const config::Job& job, std::span<const media::Image> images,
                                     const std::string& text,
                                     const std::vector<std::int64_t>& answered);

// Weighs by the tokens of answers. Throws Error{kUsage} where model.seq_len has no room for the longest question.
Sources open_questions(const config::Job& job);

}  // namespace trireme::loaders
