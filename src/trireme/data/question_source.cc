#include "trireme/data/question_source.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <string>

#include "trireme/base/error.h"
#include "trireme/config/resolve_vlm.h"
#include "trireme/data/made_up.h"
#include "trireme/data/questions.h"
#include "trireme/formats/tiling.h"

namespace trireme::data {
namespace {

using formats::ImageSize;
using formats::TileGrid;
using Place = std::array<std::int64_t, 3>;  // time, row, column

// In the order of inputs.
constexpr std::size_t kTargets = 1, kVisual = 2, kTiles = 3;
constexpr std::int64_t kEmbedded = -1, kNewline = -2, kNoTarget = -100;

// What a tower makes of images, as far as their tokens go.
struct Tiling {
  explicit Tiling(const config::Job& job)
      : side(job.vision.image),
        per_side(job.vision.image / job.vision.patch),
        tile_tokens(config::tile_tokens(job)),
        grid_kept(config::keeps_grid(job.projector)),
        grids(formats::tile_grids(job.vlm.max_tiles)) {}

  std::int64_t side, per_side, tile_tokens;
  bool grid_kept;
  std::vector<TileGrid> grids;
};

// A sample as a sequence: of each token its id, the projected row that stands there, its place, and whether it is an
// answer's.
class Sequence {
 public:
  void add_text(const std::string& text, bool answer) {
    for (const char byte : text) add(static_cast<unsigned char>(byte), kEmbedded, answer);
  }
  void add(std::int64_t id, std::int64_t visual, bool answer) {
    add(id, visual, answer, {next_, next_, next_});
    ++next_;
  }
  // The tokens of an image whose tiles begin with this one.
  void add_image(const Tiling& tiling, ImageSize image, std::int64_t first_tile) {
    const std::int64_t row = first_tile * tiling.tile_tokens;
    if (!tiling.grid_kept) {
      const std::int64_t tiles =
          1 + (tiling.grids.empty() ? 0 : choose_grid(image, tiling.grids, tiling.side).tiles());
      for (std::int64_t i = 0; i < tiles * tiling.tile_tokens; ++i)
        add(config::kImageToken, row + i, false);
      return;
    }
    add_whole(tiling.per_side, row);
    if (!tiling.grids.empty()) add_grid(tiling, image, row + tiling.tile_tokens);
  }

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }

  std::vector<std::int64_t> ids, visual;
  std::vector<Place> places;
  std::vector<bool> answers;

 private:
  void add(std::int64_t id, std::int64_t row, bool answer, Place place) {
    ids.push_back(id);
    visual.push_back(row);
    answers.push_back(answer);
    places.push_back(place);
  }
  void add_whole(std::int64_t per_side, std::int64_t row) {
    for (std::int64_t y = 0; y < per_side; ++y)
      for (std::int64_t x = 0; x < per_side; ++x)
        add(config::kImageToken, row++, false, {next_, next_ + y, next_ + x});
    next_ += per_side;
  }
  void add_grid(const Tiling& tiling, ImageSize image, std::int64_t row) {
    const TileGrid grid = choose_grid(image, tiling.grids, tiling.side);
    const formats::TokenRectangle seen = covered(image, grid, tiling.per_side);
    const std::int64_t g = tiling.per_side;
    for (std::int64_t y = 0; y < seen.rows; ++y) {
      for (std::int64_t x = 0; x < seen.columns; ++x) {
        const std::int64_t down = seen.first_row + y, across = seen.first_column + x;
        const std::int64_t tile = down / g * grid.columns + across / g;
        add(config::kImageToken, row + tile * g * g + down % g * g + across % g, false,
            {next_, next_ + y, next_ + x});
      }
      add(config::kImageToken, kNewline, false, {next_, next_ + y, next_ + seen.columns});
    }
    next_ += std::max(seen.rows, seen.columns + 1);
  }

  std::int64_t next_ = 0;  // position of what comes
};

Sequence sequence_of(const Tiling& tiling, const Question& asked, ImageSize image,
                     std::int64_t first_tile) {
  Sequence sequence;
  sequence.add_text(asked.before, false);
  if (asked.has_image()) sequence.add_image(tiling, image, first_tile);
  sequence.add_text(asked.question, false);
  sequence.add_text(asked.answer, true);
  sequence.add(config::kEndToken, kEmbedded, true);
  return sequence;
}

// [1, 3, height, width] of another size.
at::Tensor resized(const at::Tensor& image, ImageSize size) {
  return at::upsample_bilinear2d(image, {size.height, size.width}, false);
}

// [tiles, 3, side, side].
at::Tensor tiles_of(const Tiling& tiling, const at::Tensor& image) {
  const at::Tensor one = image.unsqueeze(0);
  const std::int64_t side = tiling.side;
  std::vector<at::Tensor> tiles = {resized(one, {.width = side, .height = side})};
  if (tiling.grids.empty()) return tiles[0];
  const ImageSize size{.width = image.size(2), .height = image.size(1)};
  const TileGrid grid = choose_grid(size, tiling.grids, side);
  const ImageSize room{.width = grid.columns * side, .height = grid.rows * side};
  const ImageSize fit = fitted(size, room);
  const at::Tensor canvas = at::zeros({1, 3, room.height, room.width}, image.options());
  canvas.narrow(2, (room.height - fit.height) / 2, fit.height)
      .narrow(3, (room.width - fit.width) / 2, fit.width)
      .copy_(resized(one, fit));
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t column = 0; column < grid.columns; ++column)
      tiles.push_back(canvas.narrow(2, row * side, side).narrow(3, column * side, side));
  return at::cat(tiles, 0);
}

// Tokens of a sample's answer.
double answer_tokens(const config::Job& job, std::int64_t number) {
  return static_cast<double>(question(job.data.seed, number).answer.size() + 1);
}

// Of the sequences that the model reads, as tensors.
class Rows {
 public:
  Rows(std::int64_t samples, std::int64_t tokens)
      : tokens_(tokens),
        ids_(at::zeros({samples, tokens}, at::kLong)),
        targets_(at::full({samples, tokens}, kNoTarget, at::kLong)),
        visual_(at::full({samples, tokens}, kEmbedded, at::kLong)),
        places_(at::zeros({samples, tokens, 3}, at::kLong)) {}

  void set(std::int64_t sample, const Sequence& sequence) {
    TRIREME_CHECK(sequence.size() <= tokens_ + 1, "{} tokens in {}", sequence.size(), tokens_);
    auto* const ids = ids_[sample].data_ptr<std::int64_t>();
    auto* const targets = targets_[sample].data_ptr<std::int64_t>();
    auto* const visual = visual_[sample].data_ptr<std::int64_t>();
    auto* const places = places_[sample].data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i + 1 < sequence.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      ids[i] = sequence.ids[at];
      visual[i] = sequence.visual[at];
      std::ranges::copy(sequence.places[at], places + 3 * i);
      if (sequence.answers[at + 1]) targets[i] = sequence.ids[at + 1];
    }
  }
  std::vector<at::Tensor> with(const at::Tensor& tiles, bool positions) const {
    std::vector<at::Tensor> inputs = {ids_, targets_, visual_, tiles};
    if (positions) inputs.push_back(places_);
    return inputs;
  }

 private:
  std::int64_t tokens_;
  at::Tensor ids_, targets_, visual_, places_;
};

void check_room(const config::Job& job) {
  const Tiling tiling(job);
  std::int64_t longest = 0;
  constexpr std::int64_t kTried = 512;  // all shapes, sizes and kinds are among them
  for (std::int64_t number = 0; number < kTried; ++number) {
    Question asked = question(job.data.seed, number);
    const ImageSize size = image_size(asked, tiling.side, job.data.seed, number);
    longest = std::max(longest, sequence_of(tiling, asked, size, 0).size() - 1);
  }
  if (longest > job.model.seq_len)
    fail(ErrorKind::kUsage,
         "model.seq_len={}: with {} tokens a tile and up to vlm.max_tiles={} tiles, questions have "
         "up to {} tokens; set model.seq_len={}",
         job.model.seq_len, tiling.tile_tokens, job.vlm.max_tiles, longest, longest);
}

}  // namespace

std::vector<at::Tensor> questions_batch(const config::Job& job,
                                        std::span<const std::int64_t> numbers) {
  const Tiling tiling(job);
  Rows rows(std::ssize(numbers), job.model.seq_len);
  std::vector<at::Tensor> tiles;
  std::int64_t count = 0;
  for (std::size_t sample = 0; sample < numbers.size(); ++sample) {
    const Question asked = question(job.data.seed, numbers[sample]);
    ImageSize size;
    const std::int64_t first = count;
    if (asked.has_image()) {
      const at::Tensor image = draw(asked, tiling.side, job.data.seed, numbers[sample]);
      size = {.width = image.size(2), .height = image.size(1)};
      tiles.push_back(tiles_of(tiling, image));
      count += tiles.back().size(0);
    }
    rows.set(static_cast<std::int64_t>(sample), sequence_of(tiling, asked, size, first));
  }
  if (tiles.empty()) tiles.push_back(at::zeros({1, 3, tiling.side, tiling.side}, at::kFloat));
  return rows.with(at::cat(tiles, 0), !job.vlm.mrope.empty());
}

std::vector<at::Tensor> prompt_batch(const config::Job& job, const at::Tensor& image,
                                     const std::string& text,
                                     const std::vector<std::int64_t>& answered) {
  const Tiling tiling(job);
  Sequence sequence;
  at::Tensor tiles = at::zeros({1, 3, tiling.side, tiling.side}, at::kFloat);
  if (image.defined()) {
    sequence.add_image(tiling, {.width = image.size(2), .height = image.size(1)}, 0);
    tiles = tiles_of(tiling, image);
  }
  sequence.add_text(text, false);
  for (const std::int64_t token : answered) sequence.add(token, kEmbedded, false);
  sequence.add(config::kEndToken, kEmbedded, false);  // what is asked for is not read
  Rows rows(1, sequence.size() - 1);
  rows.set(0, sequence);
  return rows.with(tiles, !job.vlm.mrope.empty());
}

std::vector<at::Tensor> question_rows(const config::Job& job, const Asked& asked,
                                      const std::string& what) {
  const Tiling tiling(job);
  Sequence sequence;
  sequence.add_image(tiling, {.width = asked.image.size(2), .height = asked.image.size(1)}, 0);
  sequence.add_text(asked.question, false);
  sequence.add_text(asked.answer, true);
  sequence.add(config::kEndToken, kEmbedded, true);
  if (sequence.size() - 1 > job.model.seq_len)
    fail(ErrorKind::kData,
         "{}: {} tokens of picture, question and answer, more than model.seq_len={}", what,
         sequence.size() - 1, job.model.seq_len);
  Rows rows(1, job.model.seq_len);
  rows.set(0, sequence);
  std::vector<at::Tensor> inputs = rows.with(tiles_of(tiling, asked.image), !job.vlm.mrope.empty());
  for (std::size_t input = 0; input < inputs.size(); ++input)
    if (input != kTiles) inputs[input] = inputs[input][0];
  return inputs;
}

std::vector<at::Tensor> merged_questions(const config::Job& job,
                                         const std::vector<std::vector<at::Tensor>>& questions) {
  const std::int64_t tile_tokens = config::tile_tokens(job);
  std::vector<at::Tensor> inputs;
  for (std::size_t input = 0; input < questions[0].size(); ++input) {
    std::vector<at::Tensor> all;
    std::int64_t first_tile = 0;
    for (const std::vector<at::Tensor>& question : questions) {
      at::Tensor one = question[input];
      // Rows of projected tiles are counted over the batch.
      if (input == kVisual) one = at::where(one >= 0, one + first_tile * tile_tokens, one);
      all.push_back(one);
      first_tile += question[kTiles].size(0);
    }
    inputs.push_back(input == kTiles ? at::cat(all, 0) : at::stack(all));
  }
  return inputs;
}

double answered_tokens(const std::vector<at::Tensor>& rows) {
  const at::Tensor& targets = rows[kTargets];
  const auto* const values = targets.data_ptr<std::int64_t>();
  return static_cast<double>(targets.numel() -
                             std::count(values, values + targets.numel(), kNoTarget));
}

void forget_answer(std::vector<at::Tensor>& rows) {
  rows[kTargets] = at::full_like(rows[kTargets], kNoTarget);
}

Sources open_questions(const config::Job& job) {
  check_room(job);
  return made_up_sources(
      job, [job](std::span<const std::int64_t> numbers) { return questions_batch(job, numbers); },
      [job](std::int64_t number) { return answer_tokens(job, number); });
}

}  // namespace trireme::data
