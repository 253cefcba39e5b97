#include "trireme/data/loaders/samples/clip_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <memory>
#include <span>
#include <utility>

#include "trireme/base/hash.h"
#include "trireme/data/loaders/families.h"
#include "trireme/data/loaders/samples/sample_masks.h"
#include "trireme/data/loaders/samples/squares.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/families/jepa/model.h"

namespace trireme::loaders {
namespace {

// Of a seed, so that samples and masks do not follow each other.
enum class ClipStream { kSquares = 1, kArm, kTrainMasks, kHeldOutMasks };

std::uint64_t stream(const config::Job& job, ClipStream which) {
  return mix(static_cast<std::uint64_t>(job.data.seed), static_cast<std::uint64_t>(which));
}

ClipSize size_of(const config::Job& job) {
  return {.frames = job.vision.frames, .side = job.vision.image};
}

at::Tensor empty_clips(const ClipSize& size, std::size_t count) {
  return at::empty({static_cast<std::int64_t>(count), 3, size.frames, size.side, size.side},
                   at::kFloat);
}

std::span<float> floats(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

at::Tensor packed(const std::vector<std::int64_t>& values) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::ranges::copy(values, tensor.data_ptr<std::int64_t>());
  return tensor;
}

// Prefix sums.
class Bounds {
 public:
  void add(std::size_t length) {
    ends_.push_back(ends_.back() + static_cast<std::int64_t>(length));
  }
  at::Tensor tensor() const { return packed(ends_).to(at::kInt); }

 private:
  std::vector<std::int64_t> ends_ = {0};
};

// Clips with the masks of their places in the order of consumption.
class Masked final : public Source {
 public:
  Masked(const config::Job& job, std::unique_ptr<Source> clips, ClipStream masks)
      : job_(job), clips_(std::move(clips)), key_(stream(job, masks)) {}

  std::int64_t samples() const override { return clips_->samples(); }
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    std::vector<at::Tensor> all = clips_->batch(first, count);
    std::vector<at::Tensor> masks = packed_masks(job_, key_, first, count);
    for (std::int64_t i = 0; i < count; ++i)
      if (clips_->weight(first + i, 1) == 0) forget_targets(masks, i);
    for (at::Tensor& one : masks) all.push_back(std::move(one));
    return all;
  }
  double weight(std::int64_t first, std::int64_t count) const override {
    return clips_->weight(first, count);
  }
  std::vector<std::string> bad() const override { return clips_->bad(); }

 private:
  config::Job job_;
  std::unique_ptr<Source> clips_;
  std::uint64_t key_;
};

// Where the family needs them.
Sources with_masks(const config::Job& job, Sources sources) {
  if (!family_samples(job).masks) return sources;
  sources.train = std::make_unique<Masked>(job, std::move(sources.train), ClipStream::kTrainMasks);
  sources.held_out =
      std::make_unique<Masked>(job, std::move(sources.held_out), ClipStream::kHeldOutMasks);
  return sources;
}

std::vector<at::Tensor> arm(const config::Job& job, std::span<const std::int64_t> samples) {
  const auto seed = static_cast<std::int64_t>(stream(job, ClipStream::kArm));
  const ClipSize size = size_of(job);
  const at::Tensor clips = empty_clips(size, samples.size());
  const at::Tensor actions =
      at::empty({clips.size(0), size.frames - 1, config::kActionNumbers}, at::kFloat);
  const at::Tensor states = at::empty_like(actions);
  for (std::int64_t i = 0; i < clips.size(0); ++i)
    draw_arm(size, config::kActionNumbers, Draws(seed, samples[i]), floats(clips[i]),
             floats(actions[i]), floats(states[i]));
  return {clips, actions, states, at::ones({clips.size(0)}, at::kFloat)};
}

}  // namespace

std::vector<at::Tensor> squares(const config::Job& job, std::span<const std::int64_t> numbers) {
  const auto seed = static_cast<std::int64_t>(stream(job, ClipStream::kSquares));
  const ClipSize size = size_of(job);
  const at::Tensor clips = empty_clips(size, numbers.size());
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::span<float> clip = floats(clips[static_cast<std::int64_t>(i)]);
    if (family_samples(job).masks)
      draw_squares(size, Draws(seed, numbers[i]), clip);
    else
      labels.push_back(draw_directed_squares(size, Draws(seed, numbers[i]), clip));
  }
  if (labels.empty()) return {clips};
  return {clips, packed(labels)};
}

std::vector<at::Tensor> packed_masks(const config::Job& job, std::uint64_t key, std::int64_t first,
                                     std::int64_t count) {
  const config::Vision& vision = job.vision;
  const std::int64_t tokens = vision.frames / vision.tubelet * (vision.image / vision.patch) *
                              (vision.image / vision.patch);
  SampleMasks masks(job, key);
  std::vector<std::int64_t> context, targets;
  Bounds context_bounds, target_bounds;
  for (std::int64_t i = 0; i < count; ++i)
    for (const Mask& mask : masks.of(first + i)) {
      for (std::int64_t token : mask.context) context.push_back(i * tokens + token);
      for (std::int64_t token : mask.targets) targets.push_back(i * tokens + token);
      context_bounds.add(mask.context.size());
      target_bounds.add(mask.targets.size());
    }
  return {packed(context), context_bounds.tensor(), packed(targets), target_bounds.tensor()};
}

void forget_targets(std::span<at::Tensor> masks, std::int64_t sample) {
  at::Tensor& targets = masks[2];
  const at::Tensor bounds = masks[3];
  const std::int64_t sequence = sample * model::kMasks;
  const auto begin = bounds[sequence].item<std::int64_t>();
  const auto end = bounds[sequence + model::kMasks].item<std::int64_t>();
  targets = at::cat({targets.narrow(0, 0, begin), targets.narrow(0, end, targets.size(0) - end)});
  const at::Tensor behind = at::arange(bounds.size(0), bounds.options()) > sequence;
  masks[3] = bounds - behind * (bounds - begin).clamp_max(end - begin);
}

Sources open_squares(const config::Job& job) {
  return with_masks(job, synthetic_sources(job, [job](std::span<const std::int64_t> numbers) {
                      return squares(job, numbers);
                    }));
}

Sources open_clips(const config::Job& job, Evaluated evaluated) {
  return with_masks(job, open_files(job, family_samples(job).clips(job), evaluated));
}

Sources open_arm(const config::Job& job) {
  return synthetic_sources(
      job, [job](std::span<const std::int64_t> numbers) { return arm(job, numbers); });
}

}  // namespace trireme::loaders
