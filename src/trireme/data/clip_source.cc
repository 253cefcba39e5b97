#include "trireme/data/clip_source.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

#include "trireme/base/hash.h"
#include "trireme/data/masks.h"
#include "trireme/data/sample_order.h"
#include "trireme/data/squares.h"

namespace trireme::data {
namespace {

// Of streams of random numbers that have one seed.
enum class Stream : std::uint64_t { kTrain, kHeldOut, kMasks };

std::uint64_t stream_key(const config::Job& job, Stream stream) {
  return mix(static_cast<std::uint64_t>(job.data.seed), static_cast<std::uint64_t>(stream));
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
  void add(std::size_t length) { ends_.push_back(ends_.back() + static_cast<std::int64_t>(length)); }
  at::Tensor tensor() const { return packed(ends_).to(at::kInt); }

 private:
  std::vector<std::int64_t> ends_ = {0};
};

// Samples by number, drawn where they are asked for; those held out are of another stream, in whole global batches.
class MadeUp : public Source {
 public:
  MadeUp(const config::Job& job, Stream stream)
      : job_(job),
        size_{.frames = job.vision.frames, .side = job.vision.image},
        key_(stream_key(job, stream)),
        held_out_(stream == Stream::kHeldOut),
        samples_(held_out_ ? held_out_samples(job) : job.data.samples),
        order_(std::max<std::int64_t>(1, samples_), key_) {}

  std::int64_t samples() const override { return samples_; }
  double weight(std::int64_t, std::int64_t count) const override {
    return static_cast<double>(count);
  }

 protected:
  const config::Job& job() const { return job_; }
  const ClipSize& size() const { return size_; }
  std::uint64_t key(std::int64_t place) const {
    const std::int64_t sample = held_out_ ? place : order_.at(place).sample;
    return mix(key_, static_cast<std::uint64_t>(sample));
  }
  at::Tensor empty_clips(std::int64_t count) const {
    return at::empty({count, 3, size_.frames, size_.side, size_.side}, at::kFloat);
  }

 private:
  static std::int64_t held_out_samples(const config::Job& job) {
    const std::int64_t batch = job.run.global_batch;
    const auto wanted = static_cast<std::int64_t>(
        std::ceil(job.data.validation * static_cast<double>(job.data.samples)));
    return (wanted + batch - 1) / batch * batch;
  }

  config::Job job_;
  ClipSize size_;
  std::uint64_t key_;
  bool held_out_;
  std::int64_t samples_;
  SampleOrder order_;
};

class Squares final : public MadeUp {
 public:
  using MadeUp::MadeUp;
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    const at::Tensor clips = empty_clips(count);
    const bool masked = job().model.family == config::Family::kJepa;
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span<float> clip = floats(clips[i]);
      if (masked)
        draw_squares(size(), key(first + i), clip);
      else
        labels.push_back(draw_directed_squares(size(), key(first + i), clip));
    }
    std::vector<at::Tensor> all = {clips};
    if (!masked) return {clips, packed(labels)};
    for (at::Tensor& one : packed_masks(job(), first, count)) all.push_back(std::move(one));
    return all;
  }
};

class Arm final : public MadeUp {
 public:
  using MadeUp::MadeUp;
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    const std::int64_t numbers = job().action.size;
    const at::Tensor clips = empty_clips(count);
    const at::Tensor actions = at::empty({count, size().frames - 1, numbers}, at::kFloat);
    const at::Tensor states = at::empty_like(actions);
    for (std::int64_t i = 0; i < count; ++i)
      draw_arm(size(), numbers, key(first + i), floats(clips[i]), floats(actions[i]),
               floats(states[i]));
    return {clips, actions, states};
  }
};

template <typename Made>
Sources open_made_up(const config::Job& job, std::string_view name) {
  return {.train = std::make_unique<Made>(job, Stream::kTrain),
          .held_out = std::make_unique<Made>(job, Stream::kHeldOut),
          .digest = std::string(name)};
}

}  // namespace

std::vector<at::Tensor> packed_masks(const config::Job& job, std::int64_t first,
                                     std::int64_t count) {
  const config::Vision& vision = job.vision;
  const std::int64_t side = vision.image / vision.patch;
  const TokenGrid grid{
      .frames = vision.frames / vision.tubelet, .rows = side, .columns = side};
  const std::int64_t tokens = grid.frames * side * side;
  const std::array rules = {
      BlockRule{.blocks = job.jepa.short_blocks, .scale = job.jepa.short_scale},
      BlockRule{.blocks = job.jepa.long_blocks, .scale = job.jepa.long_scale}};
  std::vector<std::int64_t> context, targets;
  Bounds context_bounds, target_bounds;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::uint64_t rule = 0; rule < rules.size(); ++rule) {
      const std::uint64_t sample =
          mix(stream_key(job, Stream::kMasks), static_cast<std::uint64_t>(first + i));
      const Mask mask = draw_mask(grid, rules[rule], mix(sample, rule));
      for (std::int64_t token : mask.context) context.push_back(i * tokens + token);
      for (std::int64_t token : mask.targets) targets.push_back(i * tokens + token);
      context_bounds.add(mask.context.size());
      target_bounds.add(mask.targets.size());
    }
  return {packed(context), context_bounds.tensor(), packed(targets), target_bounds.tensor()};
}

Sources open_squares(const config::Job& job) { return open_made_up<Squares>(job, "squares"); }
Sources open_arm(const config::Job& job) { return open_made_up<Arm>(job, "arm"); }

}  // namespace trireme::data
