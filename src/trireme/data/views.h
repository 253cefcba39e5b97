// Views of pictures and clips: which part is seen, and its pixels as numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/config/pixels.h"
#include "trireme/data/made_up.h"
#include "trireme/media/video.h"

namespace trireme::data {

// Pixels, within the picture.
struct Box {
  int x = 0, y = 0;
  int width = 0, height = 0;
  bool operator==(const Box&) const = default;
};

// Of a share of the area from U(least, 1) and a width over height that is log-uniform in [0.75, 1.35]; after ten draws
// that do not fit the middle, as wide or high as these allow.
Box random_box(media::ImageSize size, double least, Draws& draws);
// The largest square in the middle.
Box centre_box(media::ImageSize size);
// The largest box in the middle whose width over height lies in [0.75, 1.35]: the box of a robot's frames in V-JEPA 2-AC.
Box middle_box(media::ImageSize size);

// How a view is drawn for training; without draws it is the square in the middle, as it is.
struct Augmentation {
  double least = 0.3;  // share of the area
  bool flip = true;    // one in two, left to right
};

struct View {
  Box box;
  bool flipped = false;
};
// `draws` may be null.
View choose_view(media::ImageSize size, const Augmentation& rule, Draws* draws);

// Float [3, frames, side, side]: the same view of all frames, bilinear, with the mean and deviation of `scale`.
at::Tensor seen(std::span<const media::Image> frames, const View& view, std::int64_t side,
                const config::PixelScale& scale);

enum class Recorded {
  kClip,       // one frame in floor(ceil(fps) / 4), spread over the window; a short clip repeats its last frame
  kTrajectory  // one frame in ceil(fps / 4), equally far apart; Error{kData} where the recording is too short
};

// Frames of a recording to look at, about four a second; every frame where fps is not known.
struct FrameRule {
  std::int64_t frames = 0;
  Recorded recorded = Recorded::kClip;
};
// A window of `frames` strides, at a random place or, without draws, in the middle.
std::vector<std::int64_t> choose_frames(const media::VideoInfo& info, const FrameRule& rule,
                                        Draws* draws);

}  // namespace trireme::data
