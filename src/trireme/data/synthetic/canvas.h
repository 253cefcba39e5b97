// Shapes with smooth edges on a picture.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "trireme/data/media/image.h"

namespace trireme::synthetic {

using Colour = std::array<std::uint8_t, 3>;

struct NamedColour {
  const char* name;
  Colour colour;
};
// Different enough to be distinguished in a JPEG.
inline constexpr NamedColour kColours[] = {{"red", {220, 40, 40}},     {"green", {40, 170, 60}},
                                           {"blue", {50, 80, 220}},    {"yellow", {235, 220, 50}},
                                           {"purple", {150, 50, 190}}, {"cyan", {60, 200, 215}},
                                           {"orange", {240, 140, 40}}, {"white", {240, 240, 240}}};

enum class Shape { kCircle, kSquare, kTriangle, kCross };
inline constexpr const char* kShapeNames[] = {"circle", "square", "triangle", "cross"};

// Pixels, from the upper left corner of the picture; pixel (0, 0) has its centre at (0.5, 0.5).
struct Point {
  double x = 0;
  double y = 0;
};

// A vertical run from one colour to another.
void fill(media::Image& image, const Colour& top, const Colour& bottom);

// Within `radius` of `centre`; `striped`: every second quarter of it darker.
void draw_shape(media::Image& image, Shape shape, Point centre, double radius, const Colour& colour,
                bool striped = false);

// From one point to another, with round ends.
void draw_line(media::Image& image, Point from, Point to, double width, const Colour& colour);

}  // namespace trireme::synthetic
