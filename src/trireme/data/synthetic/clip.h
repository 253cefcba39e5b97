// Clips of shapes that move, hide each other and fall, labelled by what happens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/data/media/image.h"
#include "trireme/data/synthetic/canvas.h"
#include "trireme/data/synthetic/make.h"
#include "trireme/data/synthetic/writing.h"

namespace trireme::synthetic {

// In the order of their numbers in labels.json; [something] is an object.
inline constexpr const char* kTemplates[] = {
    "Moving [something] left",
    "Moving [something] right",
    "Moving [something] up",
    "Moving [something] down",
    "Dropping [something]",
    "Throwing [something] in the air and catching it",
    "Moving [something] behind [something]",
    "Moving [something] in front of [something]",
    "Moving [something] and [something] closer to each other",
    "Moving [something] and [something] away from each other",
    "Moving [something] closer to the camera",
    "Moving [something] away from the camera",
    "Holding [something]"};
inline constexpr int kMotions = static_cast<int>(std::size(kTemplates));

struct Sprite {
  Shape shape = Shape::kCircle;
  int colour = 0;  // of kColours
  bool striped = false;
  std::vector<Point> track;   // centres, one a frame
  std::vector<double> radii;  // pixels, one a frame
};

struct Clip {
  int motion = 0;               // of kTemplates
  std::vector<Sprite> sprites;  // those named first; drawn from back to front as `order` says
  std::vector<std::size_t> order;
  Colour top{}, bottom{};  // of the background
};

// Sample i: every motion equally often.
Clip make_clip(const VideoOptions& options, Split split, std::int64_t i);
media::Image draw_frame(const Clip& clip, int width, int height, std::size_t frame);
// "Moving a red circle left".
std::string label_text(const Clip& clip);
// "a striped red circle", of each object that the template names.
std::vector<std::string> placeholders(const Clip& clip);
// "Moving something left", as SSv2's list of labels has it.
std::string class_name(int motion);
// Positions and radii of every frame, velocities to the next, in pixels.
std::string clip_json(const Clip& clip, const VideoOptions& options);

}  // namespace trireme::synthetic
