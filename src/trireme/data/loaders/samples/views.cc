#include "trireme/data/loaders/samples/views.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/loaders/samples/pixels.h"
#include "trireme/data/media/bilinear.h"
#include "trireme/data/media/resize.h"

namespace trireme::loaders {
namespace {

constexpr double kNarrowest = 0.75;

Box in_middle(media::ImageSize size, int width, int height) {
  return {.x = (size.width - width) / 2,
          .y = (size.height - height) / 2,
          .width = width,
          .height = height};
}

// Values from 0 to 255, [side, side, 3].
std::vector<float> resized(const media::Image& image, int side, bool antialias) {
  if (!antialias) return media::sample_bilinear(image, side, side);
  const media::Image small = media::resize(image, side, side);
  return {small.rgb.begin(), small.rgb.end()};
}

int rounded(double value) { return static_cast<int>(std::lround(value)); }

// Frames from one that is looked at to the next.
std::int64_t stride_of(double fps, Recorded recorded) {
  constexpr double kAsked = 4;  // a second
  const double stride = recorded == Recorded::kTrajectory ? std::ceil(fps / kAsked)
                                                          : std::floor(std::ceil(fps) / kAsked);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(stride));
}

// The frames of a window from `first` on, evenly apart; the last one is at its end.
std::vector<std::int64_t> spread(std::int64_t first, std::int64_t length, std::int64_t count) {
  std::vector<std::int64_t> frames;
  for (std::int64_t i = 0; i < count; ++i)
    frames.push_back(first + std::min(length - 1, count == 1 ? 0 : i * length / (count - 1)));
  return frames;
}

}  // namespace

Box random_box(media::ImageSize size, double least, Draws& draws, double widest) {
  constexpr int kTries = 10;
  const double area = static_cast<double>(size.width) * size.height;
  for (int i = 0; i < kTries; ++i) {
    const double share = area * draws.uniform(least, 1);
    const double aspect = std::exp(draws.uniform(std::log(kNarrowest), std::log(widest)));
    const int width = rounded(std::sqrt(share * aspect)),
              height = rounded(std::sqrt(share / aspect));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    const auto x = draws.below(size.width - width + 1), y = draws.below(size.height - height + 1);
    return {.x = static_cast<int>(x), .y = static_cast<int>(y), .width = width, .height = height};
  }
  return middle_box(size, widest);
}

Box middle_box(media::ImageSize size, double widest) {
  const int width = std::max(1, rounded(size.height * widest)),
            height = std::max(1, rounded(size.width / kNarrowest));
  return in_middle(size, std::min(size.width, width), std::min(size.height, height));
}

std::vector<Box> view_boxes(media::ImageSize size, std::int64_t views) {
  if (views == 1) return {centre_box(size)};
  const int side = std::min(size.width, size.height);
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < views; ++i) {
    const auto along = [&](int length) {
      return static_cast<int>((length - side) * i / (views - 1));
    };
    boxes.push_back(
        {.x = along(size.width), .y = along(size.height), .width = side, .height = side});
  }
  return boxes;
}

Box centre_box(media::ImageSize size) {
  const int side = std::min(size.width, size.height);
  return in_middle(size, side, side);
}

View choose_view(media::ImageSize size, const Augmentation& rule, Draws* draws) {
  if (draws == nullptr) return {.box = centre_box(size)};
  const Box box = random_box(size, rule.least, *draws, rule.widest);
  return {.box = box, .flipped = rule.flip && draws->below(2) == 1};
}

at::Tensor seen(std::span<const media::Image> frames, const View& view, std::int64_t side,
                const config::PixelScale& scale, bool antialias) {
  const auto count = static_cast<std::int64_t>(frames.size());
  const at::Tensor all = at::empty({3, count, side, side}, at::kFloat);
  const auto pixels = static_cast<int>(side);
  const Box& box = view.box;
  for (std::int64_t frame = 0; frame < count; ++frame) {
    media::Image image = media::crop(frames[frame], box.x, box.y, box.width, box.height);
    if (view.flipped) image = media::flip_horizontal(image);
    all.select(1, frame).copy_(pixels_of(resized(image, pixels, antialias), pixels, pixels, scale));
  }
  return all;
}

std::vector<std::int64_t> choose_frames(const media::VideoInfo& info, const FrameRule& rule,
                                        Draws* draws) {
  const std::int64_t stride = stride_of(info.fps, rule.recorded);
  const std::int64_t window = rule.frames * stride, spare = info.frames - window;
  if (spare >= 0) {
    const std::int64_t first = draws != nullptr ? draws->below(spare + 1) : spare / 2;
    if (rule.recorded == Recorded::kClip) return spread(first, window, rule.frames);
    std::vector<std::int64_t> frames;  // equally far apart, so that actions are comparable
    for (std::int64_t i = 0; i < rule.frames; ++i) frames.push_back(first + i * stride);
    return frames;
  }
  if (rule.recorded == Recorded::kTrajectory)
    fail(ErrorKind::kData, "{} frames, too few for vision.frames={} with one in {}", info.frames,
         rule.frames, stride);
  const std::int64_t there = std::min(rule.frames, std::max<std::int64_t>(1, info.frames / stride));
  std::vector<std::int64_t> frames = spread(0, info.frames, there);
  frames.resize(static_cast<std::size_t>(rule.frames), info.frames - 1);
  return frames;
}

std::vector<std::int64_t> choose_segments(const media::VideoInfo& info, const FrameRule& rule,
                                          std::int64_t segments, Draws* draws) {
  if (segments == 1) return choose_frames(info, rule, draws);
  const std::int64_t window = rule.frames * stride_of(info.fps, rule.recorded);
  const std::int64_t segment = info.frames / segments;
  const bool apart = segment >= window;
  media::VideoInfo part = info;
  part.frames = apart ? segment : std::min(window, info.frames);
  const std::int64_t step = apart ? segment : (info.frames - part.frames) / (segments - 1);
  std::vector<std::int64_t> frames;
  for (std::int64_t i = 0; i < segments; ++i)
    for (const std::int64_t frame : choose_frames(part, rule, draws))
      frames.push_back(i * step + frame);
  return frames;
}

}  // namespace trireme::loaders
