#include "trireme/families/vlm/samples_clips.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/data/loaders/samples/clip_source.h"
#include "trireme/data/loaders/samples/squares.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::loaders {
namespace {

constexpr std::int64_t kClipAnswer = 4;  // tokens, with the end
constexpr std::int64_t kNotEmbedded = -1, kNotAsked = -100;

// Tokens after a clip's, the last of which is not read.
std::vector<std::int64_t> asked_and_answered(std::int64_t direction, std::int64_t end) {
  const std::string text = kClipQuestion + clip_answer(direction);
  std::vector<std::int64_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  tokens.push_back(end);
  return tokens;
}

// Time, row and column of a sequence's tokens, int64 [tokens, 3]: those of a clip have places of their own where the
// projector keeps these.
at::Tensor clip_places(const config::Job& job) {
  const at::Tensor places = at::zeros({job.model.seq_len, 3}, at::kLong);
  auto* const to = places.data_ptr<std::int64_t>();
  const std::int64_t seen = config::tile_tokens(job), side = job.vision.image / job.vision.patch;
  const bool grid = config::keeps_grid(job.projector);
  const std::int64_t next = grid ? std::max(seen / (side * side), side) : seen;
  for (std::int64_t i = 0; i < job.model.seq_len; ++i) {
    const std::int64_t place = i < seen ? i : next + i - seen;
    const bool inside = grid && i < seen;
    to[3 * i] = inside ? i / (side * side) : place;
    to[3 * i + 1] = inside ? i / side % side : place;
    to[3 * i + 2] = inside ? i % side : place;
  }
  return places;
}

}  // namespace

std::string clip_answer(std::int64_t direction) {
  return fmt::format("{:03}", direction * 360 / kDirections);
}

std::vector<at::Tensor> clip_questions(const config::Job& job,
                                       std::span<const std::int64_t> numbers) {
  const std::vector<at::Tensor> clips = squares(job, numbers);
  const std::int64_t samples = std::ssize(numbers), tokens = job.model.seq_len,
                     seen = config::tile_tokens(job);
  const at::Tensor ids = at::zeros({samples, tokens}, at::kLong);
  const at::Tensor targets = at::full({samples, tokens}, kNotAsked, at::kLong);
  const at::Tensor visual = at::full({samples, tokens}, kNotEmbedded, at::kLong);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    auto* const id = ids[sample].data_ptr<std::int64_t>();
    auto* const target = targets[sample].data_ptr<std::int64_t>();
    auto* const row = visual[sample].data_ptr<std::int64_t>();
    std::fill_n(id, seen, job.vlm.tokens[0]);
    for (std::int64_t i = 0; i < seen; ++i) row[i] = sample * seen + i;
    const std::vector<std::int64_t> text =
        asked_and_answered(clips[1][sample].item<std::int64_t>(), job.vlm.tokens[1]);
    std::copy(text.begin(), text.end() - 1, id + seen);
    std::copy(text.end() - kClipAnswer, text.end(),
              target + seen + std::ssize(text) - kClipAnswer - 1);
  }
  std::vector<at::Tensor> inputs = {ids, targets, visual, clips[0]};
  if (!job.vlm.mrope.empty())
    inputs.push_back(clip_places(job).unsqueeze(0).expand({samples, -1, -1}).contiguous());
  return inputs;
}

Sources open_clip_questions(const config::Job& job) {
  const std::int64_t seen = config::tile_tokens(job);
  const std::int64_t needed = seen + std::ssize(asked_and_answered(0, 0)) - 1;
  if (needed > job.model.seq_len)
    fail(ErrorKind::kUsage,
         "model.seq_len={}: a clip's {} tokens with question and answer are {}; set "
         "model.seq_len={}, or make fewer of them with projector.kind=perceiver",
         job.model.seq_len, seen, needed, needed);
  return synthetic_sources(
      job, [job](std::span<const std::int64_t> numbers) { return clip_questions(job, numbers); },
      [](std::int64_t) { return static_cast<double>(kClipAnswer); });
}

}  // namespace trireme::loaders
