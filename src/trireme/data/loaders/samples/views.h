// Views of pictures and clips: which part is seen, and its pixels as numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/config/pixels.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/media/video.h"

namespace trireme::loaders {

// Pixels, within the picture.
struct Box {
  int x = 0, y = 0;
  int width = 0, height = 0;
  bool operator==(const Box&) const = default;
};

// A widest aspect of 4/3 is that of V-JEPA 2's probes, of 1.35 that of its pretraining.
inline constexpr double kWidestBox = 1.35;

// Box of a share of the area from U(least, 1) and a ratio of width to height that is log-uniform in [0.75, widest];
// after ten draws that do not fit `middle_box`.
Box random_box(media::ImageSize size, double least, Draws& draws, double widest = kWidestBox);
// The largest square in the middle.
Box centre_box(media::ImageSize size);
// The largest box in the middle whose width over height lies in [0.75, widest]: with 1.35 the box of a robot's frames in
// V-JEPA 2-AC.
Box middle_box(media::ImageSize size, double widest = kWidestBox);
// The largest squares, `views` of them, evenly apart along the longer side; of one view the square in the middle.
std::vector<Box> view_boxes(media::ImageSize size, std::int64_t views);

// How a view is drawn for training; without draws it is the square in the middle, as it is.
struct Augmentation {
  double least = 0.3;  // share of the area
  double widest = kWidestBox;
  bool flip = true;  // one in two, left to right
};

struct View {
  Box box;
  bool flipped = false;
};
// `draws` may be null.
View choose_view(media::ImageSize size, const Augmentation& rule, Draws* draws);

// Float [3, frames, side, side]: the same view of all frames, bilinear, with the mean and deviation of `scale`. Without
// `antialias` pixels are sampled in floating point (data/media/bilinear.h).
at::Tensor seen(std::span<const media::Image> frames, const View& view, std::int64_t side,
                const config::PixelScale& scale, bool antialias = true);

enum class Recorded {
  kClip,  // one frame in floor(ceil(fps) / 4), spread over the window; a short clip repeats its last frame
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
// Frames of `segments` clips of a video, one clip after the other, each from a segment of its own. If segments are
// shorter than a clip they overlap, evenly spaced from the first frame to the last.
std::vector<std::int64_t> choose_segments(const media::VideoInfo& info, const FrameRule& rule,
                                          std::int64_t segments, Draws* draws);

}  // namespace trireme::loaders
