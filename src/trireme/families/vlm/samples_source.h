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
#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/data/loaders/tokens/words.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/samples.h"
#include "trireme/formats/tiling.h"

namespace trireme::loaders {

// How the questions of a resolved job become samples.
struct QuestionForm {
  // Throws as Words.
  QuestionForm(const config::Job& job);  // NOLINT(google-explicit-constructor): of a job alone
  QuestionForm(const config::Job& job, Words words);

  config::Job job;
  Tiling tiling;
  Words words;
};

// Inputs of model::vlm_spec for one sample, without the dim of samples and not filled up. Text has the ids of Words; each
// image's tiles take the places of its tokens in the text; answers end with a token of their own. Only answers are
// targets. Tiles are the whole image, then its grid, by rows. Rows of a grid that the image does not cover have no
// tokens where a tile's tokens keep their places.
using QuestionRow = std::vector<at::Tensor>;

// A question about pictures, which are at its marks, or before it if it has no marks.
struct Asked {
  std::vector<media::Image> images;
  std::string question, answer;
};
// One of the "questions" in the picture's .json file, chosen by the draws or, without them, by the sample's number.
// Throws Error{kData}.
Asked asked_about(const media::Sample& sample, Draws* draws);
// Throws Error{kData} beginning with `what` for another number of marks, and for a row that is too short for the
// sample.
QuestionRow question_row(const QuestionForm& form, const Asked& asked, const std::string& what);
// Concatenation of several rows, whose positions begin at 0 with each; an empty row for none.
QuestionRow joined_questions(const config::Job& job, const std::vector<QuestionRow>& questions);
// Rows filled up to model.seq_len. Without any image there is one blank tile.
std::vector<at::Tensor> merged_questions(const config::Job& job,
                                         const std::vector<QuestionRow>& rows);
// Tokens with loss.
double answered_tokens(const QuestionRow& row);
// Takes all loss from it.
void forget_answer(QuestionRow& row);

// Capacity of a row.
Outline row_capacity(const config::Job& job);
// Part of a row that a sample takes, computed before there are pixels. Throws as question_row().
Outline question_outline(const QuestionForm& form, const std::string& question,
                         const std::string& answer, std::span<const formats::ImageSize> images,
                         const std::string& what);

// The synthetic questions with these numbers, merged, one to a row.
std::vector<at::Tensor> questions_batch(const QuestionForm& form,
                                        std::span<const std::int64_t> numbers);

// Images, the text after them, or around them at its marks, and the answer's tokens so far, merged without targets and
// not filled up.
std::vector<at::Tensor> prompt_batch(const QuestionForm& form, std::span<const media::Image> images,
                                     const std::string& text,
                                     const std::vector<std::int64_t>& answered);

// Weighs by the tokens of answers. Throws Error{kUsage} if model.seq_len has no space for the longest question.
Sources open_questions(const config::Job& job);

}  // namespace trireme::loaders
