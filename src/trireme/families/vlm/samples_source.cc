#include "trireme/families/vlm/samples_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/loaders/balance.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/loaders/tokens/packing.h"
#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/model.h"
#include "trireme/families/vlm/samples_questions.h"

namespace trireme::loaders {
namespace {

using formats::ImageSize;

// In the order of inputs.
enum Input : std::size_t { kIds, kTargets, kVisual, kTiles, kPlaces };

at::Tensor longs(std::int64_t count, std::int64_t value) {
  return at::full({count}, value, at::kLong);
}

// [tokens], or [tokens, columns] of several.
at::Tensor places_of(const config::Job& job, const Sequence& sequence, std::int64_t tokens) {
  const std::int64_t columns = model::position_columns(job),
                     axes = std::min<std::int64_t>(columns, 3);
  if (columns == 1) return at::arange(tokens, at::kLong);
  const at::Tensor places = at::empty({tokens, columns}, at::kLong);
  auto* value = places.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tokens; ++i) {
    value = std::copy_n(sequence.places[i].begin(), axes, value);
    if (job.vlm.pack) *value++ = i;
  }
  return places;
}

QuestionRow row_of(const config::Job& job, const Tiling& tiling, const Sequence& sequence,
                   std::span<const media::Image> images) {
  const std::int64_t tokens = sequence.size() - 1;  // the last one is only asked for
  const at::Tensor targets = longs(tokens, kNoTarget);
  for (std::int64_t i = 0; i < tokens; ++i) {
    const auto next = static_cast<std::size_t>(i + 1);
    if (sequence.answers[next]) targets.data_ptr<std::int64_t>()[i] = sequence.ids[next];
  }
  const auto copied = [&](const std::vector<std::int64_t>& values) {
    const at::Tensor copy = longs(tokens, 0);
    std::copy_n(values.begin(), tokens, copy.data_ptr<std::int64_t>());
    return copy;
  };
  std::vector<at::Tensor> tiles = {at::zeros({0, 3, tiling.side, tiling.side}, at::kFloat)};
  for (const media::Image& image : images) tiles.push_back(tiles_of(tiling, image));
  QuestionRow row = {copied(sequence.ids), targets, copied(sequence.visual), at::cat(tiles, 0)};
  if (model::position_columns(job) > 0) row.push_back(places_of(job, sequence, tokens));
  return row;
}

// With `tokens` in each row. After its samples a row has zeros, which are a document of their own.
std::vector<at::Tensor> filled_up(const config::Job& job, const std::vector<QuestionRow>& rows,
                                  std::int64_t tokens) {
  const auto filling = [&](std::size_t input, std::int64_t count) {
    switch (input) {
      case kTargets: return longs(count, kNoTarget);
      case kVisual: return longs(count, kEmbedded);
      case kPlaces: break;
      default: return longs(count, 0);
    }
    const at::Tensor places = job.vlm.pack ? at::arange(count, at::kLong) : longs(count, 0);
    const std::int64_t columns = model::position_columns(job);
    return columns == 1 ? places : places.unsqueeze(1).expand({count, columns});
  };
  std::vector<at::Tensor> inputs;
  for (std::size_t input = 0; input < rows[0].size(); ++input) {
    std::vector<at::Tensor> all;
    std::int64_t first_tile = 0;
    for (const QuestionRow& row : rows) {
      at::Tensor one = row[input];
      if (input != kTiles) {
        TRIREME_CHECK(one.size(0) <= tokens, "{} tokens in {}", one.size(0), tokens);
        one = at::cat({one, filling(input, tokens - one.size(0))}, 0);
      }
      // Rows of projected tiles are counted over the batch.
      if (input == kVisual)
        one = at::where(one >= 0, one + first_tile * config::tile_tokens(job), one);
      all.push_back(one);
      first_tile += row[kTiles].size(0);
    }
    inputs.push_back(input == kTiles ? at::cat(all, 0) : at::stack(all));
  }
  const std::int64_t side = job.vision.image;
  if (inputs[kTiles].size(0) == 0) inputs[kTiles] = at::zeros({1, 3, side, side}, at::kFloat);
  return inputs;
}

std::vector<ImageSize> sizes_of_images(std::span<const media::Image> images) {
  std::vector<ImageSize> sizes;
  for (const media::Image& image : images)
    sizes.push_back({.width = image.width, .height = image.height});
  return sizes;
}

// Text of a synthetic question, with marks for its images.
std::string marked(const Question& asked) {
  std::string text = asked.before;
  for (std::int64_t image = 0; image < asked.images(); ++image) {
    if (image > 0) text += " and ";
    text += kImageMark;
  }
  return text + asked.question;
}

std::string name_of(std::int64_t number) { return fmt::format("question {}", number); }

Sequence sequence_of(const QuestionForm& form, const std::string& question,
                     const std::string& answer, std::span<const ImageSize> images,
                     const std::string& what) {
  const Words::Ids ids = form.words.ids(question, answer, std::ssize(images), what);
  Sequence sequence;
  sequence.add_asked(form.tiling, ids.asked, images);
  sequence.add_answer(ids.answer);
  return sequence;
}

// Throws Error{kData} where a row is too short.
Sequence fitting(const QuestionForm& form, const std::string& question, const std::string& answer,
                 std::span<const ImageSize> images, const std::string& what) {
  Sequence sequence = sequence_of(form, question, answer, images, what);
  const std::int64_t tokens = sequence.size() - 1;
  const Outline room = row_capacity(form.job);
  if (tokens > room.tokens || sequence.tiles() > room.tiles)
    fail(ErrorKind::kData,
         "{}: {} tokens of pictures, question and answer and {} tiles; model.seq_len={} allows {} "
         "and {}",
         what, tokens, sequence.tiles(), form.job.model.seq_len, room.tokens, room.tiles);
  return sequence;
}

QuestionRow synthetic_row(const QuestionForm& form, std::int64_t number) {
  const config::Job& job = form.job;
  const Question asked = question(job.data.seed, number);
  return question_row(form,
                      {.images = draw(asked, job.vision.image, job.data.seed, number),
                       .question = marked(asked),
                       .answer = asked.answer},
                      name_of(number));
}

Outline synthetic_outline(const QuestionForm& form, std::int64_t number) {
  const config::Job& job = form.job;
  const Question asked = question(job.data.seed, number);
  std::vector<ImageSize> sizes;
  if (asked.has_image())
    sizes.assign(static_cast<std::size_t>(asked.images()),
                 image_size(asked, job.vision.image, job.data.seed, number));
  return question_outline(form, marked(asked), asked.answer, sizes, name_of(number));
}

// Tokens of a sample's answer.
double answer_tokens(const QuestionForm& form, std::int64_t number) {
  const Question asked = question(form.job.data.seed, number);
  return static_cast<double>(
      form.words.ids(marked(asked), asked.answer, asked.images(), name_of(number)).answer.size());
}

void check_room(const QuestionForm& form) {
  const config::Job& job = form.job;
  QuestionForm roomy = form;
  roomy.job.model.seq_len = INT64_MAX;
  std::int64_t longest = 0;
  constexpr std::int64_t kTried = 512;  // all shapes, sizes and kinds are among them
  for (std::int64_t number = 0; number < kTried; ++number) {
    const Outline outline = synthetic_outline(roomy, number);
    longest = std::max(longest, outline.tokens);
    if (outline.tiles > 1 + job.vlm.max_tiles && !config::crosses(job))
      longest = std::max(longest, outline.tiles * config::tile_tokens(job));
  }
  if (longest > job.model.seq_len && config::crosses(job))
    fail(ErrorKind::kUsage,
         "model.seq_len={}: questions have up to {} tokens, one for each image; set "
         "model.seq_len={}",
         job.model.seq_len, longest, longest);
  if (longest > job.model.seq_len)
    fail(ErrorKind::kUsage,
         "model.seq_len={}: with {} tokens a tile and up to vlm.max_tiles={} tiles, questions have "
         "up to {} tokens; set model.seq_len={}",
         job.model.seq_len, config::tile_tokens(job), job.vlm.max_tiles, longest, longest);
}

// Rows of several synthetic questions each: first those of the training part, then the held-out ones.
class PackedQuestions {
 public:
  PackedQuestions(const QuestionForm& form, SyntheticCounts samples) : form_(form) {
    add(0, samples.train);
    counts_.train = std::ssize(rows_);
    add(samples.train, samples.held_out);
    const std::int64_t batch = form.job.run.global_batch,
                       held_out = std::ssize(rows_) - counts_.train;
    counts_.held_out = (held_out + batch - 1) / batch * batch;
    rows_.resize(static_cast<std::size_t>(counts_.train + counts_.held_out));  // empty ones
  }

  SyntheticCounts counts() const { return counts_; }
  std::vector<at::Tensor> batch(std::span<const std::int64_t> rows) const {
    std::vector<QuestionRow> joined;
    for (const std::int64_t row : rows) {
      std::vector<QuestionRow> samples;
      for (const std::int64_t number : at(row)) samples.push_back(synthetic_row(form_, number));
      joined.push_back(joined_questions(form_.job, samples));
    }
    return merged_questions(form_.job, joined);
  }
  double weight(std::int64_t row) const {
    double sum = 0;
    for (const std::int64_t number : at(row)) sum += answer_tokens(form_, number);
    return sum;
  }
  std::int64_t tiles(std::int64_t row) const {
    std::int64_t sum = 0;
    for (const std::int64_t number : at(row)) sum += synthetic_outline(form_, number).tiles;
    return sum;
  }

 private:
  const PackedRow& at(std::int64_t row) const { return rows_[row]; }
  void add(std::int64_t first, std::int64_t count) {
    std::vector<Outline> outlines;
    for (std::int64_t number = first; number < first + count; ++number)
      outlines.push_back(synthetic_outline(form_, number));
    for (PackedRow& row : pack_rows(outlines, row_capacity(form_.job),
                                    static_cast<std::uint64_t>(form_.job.data.seed))) {
      for (std::int64_t& sample : row) sample += first;
      rows_.push_back(std::move(row));
    }
  }

  QuestionForm form_;
  SyntheticCounts counts_;
  std::vector<PackedRow> rows_;
};

}  // namespace

QuestionForm::QuestionForm(const config::Job& job) : QuestionForm(job, Words(job)) {}

QuestionForm::QuestionForm(const config::Job& job, Words words)
    : job(job), tiling(job), words(std::move(words)) {}

QuestionRow question_row(const QuestionForm& form, const Asked& asked, const std::string& what) {
  const Sequence sequence =
      fitting(form, asked.question, asked.answer, sizes_of_images(asked.images), what);
  return row_of(form.job, form.tiling, sequence, asked.images);
}

Outline row_capacity(const config::Job& job) {
  return {.tokens = job.model.seq_len, .tiles = model::row_tiles(job)};
}

Outline question_outline(const QuestionForm& form, const std::string& question,
                         const std::string& answer, std::span<const ImageSize> images,
                         const std::string& what) {
  const Sequence sequence = fitting(form, question, answer, images, what);
  return {.tokens = sequence.size() - 1, .tiles = sequence.tiles()};
}

QuestionRow joined_questions(const config::Job& job, const std::vector<QuestionRow>& questions) {
  Sequence none;
  none.add_token(job.vlm.tokens[1], false);  // what is asked for is not read
  QuestionRow row = row_of(job, Tiling(job), none, {});
  for (const QuestionRow& question : questions)
    for (std::size_t input = 0; input < row.size(); ++input) {  // what counts tiles before these
      at::Tensor more = question[input];
      if (input == kVisual)
        more = at::where(more >= 0, more + row[kTiles].size(0) * config::tile_tokens(job), more);
      row[input] = at::cat({row[input], more}, 0);
    }
  return row;
}

std::vector<at::Tensor> merged_questions(const config::Job& job,
                                         const std::vector<QuestionRow>& rows) {
  return filled_up(job, rows, job.model.seq_len);
}

double answered_tokens(const QuestionRow& row) {
  const at::Tensor& targets = row[kTargets];
  const auto* const values = targets.data_ptr<std::int64_t>();
  return static_cast<double>(targets.numel() -
                             std::count(values, values + targets.numel(), kNoTarget));
}

void forget_answer(QuestionRow& row) { row[kTargets] = at::full_like(row[kTargets], kNoTarget); }

std::vector<at::Tensor> questions_batch(const QuestionForm& form,
                                        std::span<const std::int64_t> numbers) {
  std::vector<QuestionRow> rows;
  for (const std::int64_t number : numbers) rows.push_back(synthetic_row(form, number));
  return merged_questions(form.job, rows);
}

std::vector<at::Tensor> prompt_batch(const QuestionForm& form, std::span<const media::Image> images,
                                     const std::string& text,
                                     const std::vector<std::int64_t>& answered) {
  Sequence sequence;
  sequence.add_asked(form.tiling, form.words.asked(text, std::ssize(images), "the prompt"),
                     sizes_of_images(images));
  for (const std::int64_t token : answered) sequence.add_token(token, false);
  sequence.add_token(form.job.vlm.tokens[1], false);  // what is asked for is not read
  return filled_up(form.job, {row_of(form.job, form.tiling, sequence, images)},
                   sequence.size() - 1);
}

Sources open_questions(const config::Job& job) {
  const QuestionForm form(job);
  check_room(form);
  const double tile = job.vlm.balance ? question_work(job).tile : 0;
  if (!job.vlm.pack)
    return synthetic_sources(
        job, synthetic_counts(job),
        [form](std::span<const std::int64_t> numbers) { return questions_batch(form, numbers); },
        [form](std::int64_t number) { return answer_tokens(form, number); },
        [form, tile](std::int64_t number) {
          return tile * static_cast<double>(synthetic_outline(form, number).tiles);
        });
  const auto packed = std::make_shared<const PackedQuestions>(form, synthetic_counts(job));
  return synthetic_sources(
      job, packed->counts(),
      [packed](std::span<const std::int64_t> rows) { return packed->batch(rows); },
      [packed](std::int64_t row) { return packed->weight(row); },
      [packed, tile](std::int64_t row) { return tile * static_cast<double>(packed->tiles(row)); });
}

}  // namespace trireme::loaders
