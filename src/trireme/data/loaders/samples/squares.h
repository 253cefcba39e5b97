// Moving squares: synthetic clips and trajectories, each a function of its draws.
#pragma once

#include <cstdint>
#include <span>

#include "trireme/data/loaders/samples/synthetic.h"

namespace trireme::loaders {

struct ClipSize {
  std::int64_t frames = 0;
  std::int64_t side = 0;  // pixels
  std::int64_t pixels() const { return 3 * frames * side * side; }
};

// Directions that a clip's squares may share: steps of 45 degrees.
inline constexpr std::int64_t kDirections = 8;

// Three squares of side / 8 to side * 19 / 64 pixels in a colour from N(0, 1) over noise of 0.05. Each has a velocity
// of its own, up to side / 16 pixels a frame on both axes. Shape of clip: [3, frames, side, side].
void draw_squares(const ClipSize& size, Draws draws, std::span<float> clip);
// The same with all squares moving in one direction, between side / 16 and side / 8 pixels a frame; returns it.
std::int64_t draw_directed_squares(const ClipSize& size, Draws draws, std::span<float> clip);

// A moving square. A state is its centre, in shares of the side, and a grip, which is its brightness; an action is the
// difference to the next state, up to 1/8. The other numbers are 0. Shapes: clip [3, frames, side, side]; actions and
// states [frames - 1, numbers].
void draw_arm(const ClipSize& size, std::int64_t numbers, Draws draws, std::span<float> clip,
              std::span<float> actions, std::span<float> states);

}  // namespace trireme::loaders
