#include "trireme/data/loaders/samples/squares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "trireme/base/error.h"

namespace trireme::loaders {
namespace {

constexpr int kSquareCount = 3;
constexpr double kPixelNoise = 0.05;
constexpr std::int64_t kArmState = 3;  // x, y, grip
constexpr double kArmStep = 0.125;

using Colour = std::array<double, 3>;

struct Point {
  double x = 0;
  double y = 0;
};

// In pixels, and pixels a frame.
struct Square {
  double side = 0;
  Point corner;
  Point velocity;
  Colour colour{};
};

class Canvas {
 public:
  Canvas(const ClipSize& size, std::span<float> clip, Draws& draws) : size_(size), clip_(clip) {
    TRIREME_CHECK(static_cast<std::int64_t>(clip.size()) == size.pixels(), "{} pixels of a clip",
                  clip.size());
    for (float& pixel : clip_) pixel = static_cast<float>(kPixelNoise * draws.normal());
  }

  // Adds what of it lies within the frame, over what is there.
  void square(std::int64_t frame, Point corner, double side, const Colour& colour) {
    const auto [left, right] = within(corner.x, side);
    const auto [top, bottom] = within(corner.y, side);
    for (std::int64_t channel = 0; channel < 3; ++channel)
      for (std::int64_t y = top; y < bottom; ++y)
        for (std::int64_t x = left; x < right; ++x)
          at(channel, frame, y, x) += static_cast<float>(colour[channel]);
  }

 private:
  std::pair<std::int64_t, std::int64_t> within(double begin, double length) const {
    const auto clamp = [&](double place) {
      return std::clamp<std::int64_t>(std::llrint(place), 0, size_.side);
    };
    return {clamp(begin), clamp(begin + length)};
  }
  float& at(std::int64_t channel, std::int64_t frame, std::int64_t y, std::int64_t x) {
    const std::int64_t place = ((channel * size_.frames + frame) * size_.side + y) * size_.side + x;
    return clip_[place];
  }

  ClipSize size_;
  std::span<float> clip_;
};

Colour draw_colour(Draws& draws) { return {draws.normal(), draws.normal(), draws.normal()}; }

// Without a velocity.
Square draw_square(const ClipSize& size, Draws& draws) {
  const auto side = static_cast<double>(size.side);
  Square square{.side = std::floor(draws.uniform(side / 8, side * 20 / 64))};
  square.side = std::max(1.0, square.side);
  square.corner = {draws.uniform(0, side - square.side), draws.uniform(0, side - square.side)};
  square.colour = draw_colour(draws);
  return square;
}

void paint(const ClipSize& size, const Square& square, Canvas& canvas) {
  for (std::int64_t frame = 0; frame < size.frames; ++frame) {
    const auto time = static_cast<double>(frame);
    canvas.square(
        frame,
        {square.corner.x + time * square.velocity.x, square.corner.y + time * square.velocity.y},
        square.side, square.colour);
  }
}

}  // namespace

void draw_squares(const ClipSize& size, Draws draws, std::span<float> clip) {
  Canvas canvas(size, clip, draws);
  const double fastest = static_cast<double>(size.side) / 16;
  for (int i = 0; i < kSquareCount; ++i) {
    Square square = draw_square(size, draws);
    square.velocity = {draws.uniform(-fastest, fastest), draws.uniform(-fastest, fastest)};
    paint(size, square, canvas);
  }
}

std::int64_t draw_directed_squares(const ClipSize& size, Draws draws, std::span<float> clip) {
  Canvas canvas(size, clip, draws);
  const std::int64_t direction = draws.below(kDirections);
  const double angle = 2 * std::numbers::pi * static_cast<double>(direction) / kDirections;
  const double fastest = static_cast<double>(size.side) / 8;
  for (int i = 0; i < kSquareCount; ++i) {
    Square square = draw_square(size, draws);
    const double speed = draws.uniform(fastest / 2, fastest);
    square.velocity = {speed * std::cos(angle), speed * std::sin(angle)};
    paint(size, square, canvas);
  }
  return direction;
}

void draw_arm(const ClipSize& size, std::int64_t numbers, Draws draws, std::span<float> clip,
              std::span<float> actions, std::span<float> states) {
  TRIREME_CHECK(numbers >= kArmState &&
                    static_cast<std::int64_t>(states.size()) == (size.frames - 1) * numbers &&
                    states.size() == actions.size(),
                "{} numbers of states", states.size());
  Canvas canvas(size, clip, draws);
  const auto side = static_cast<double>(size.side);
  const double width = side / 4;
  const Colour colour = draw_colour(draws);
  std::array<double, kArmState> state{};
  for (double& number : state) number = draws.uniform(0.2, 0.8);
  std::ranges::fill(actions, 0.0F);
  std::ranges::fill(states, 0.0F);
  for (std::int64_t frame = 0; frame < size.frames; ++frame) {
    Colour shown = colour;
    for (double& channel : shown) channel *= 0.5 + state[2];
    canvas.square(frame, {state[0] * side - width / 2, state[1] * side - width / 2}, width, shown);
    if (frame + 1 == size.frames) break;
    for (std::int64_t i = 0; i < kArmState; ++i) {
      double& number = state[i];
      // Within reach: what would leave it goes the other way.
      const double step = draws.uniform(-kArmStep, kArmStep), there = number + step;
      const double next = there < 0.1 || there > 0.9 ? number - step : there;
      const auto place = static_cast<std::size_t>(frame * numbers + i);
      states[place] = static_cast<float>(number);
      actions[place] = static_cast<float>(next - number);
      number = next;
    }
  }
}

}  // namespace trireme::loaders
