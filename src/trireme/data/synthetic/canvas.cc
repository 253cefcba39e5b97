#include "trireme/data/synthetic/canvas.h"

#include <algorithm>
#include <cmath>

namespace trireme::synthetic {
namespace {

// In units of the radius, v downwards.
bool inside_shape(Shape shape, double u, double v) {
  const double across = std::abs(u), along = std::abs(v);
  switch (shape) {
    case Shape::kCircle: return u * u + v * v <= 1;
    case Shape::kSquare: return across <= 0.85 && along <= 0.85;
    case Shape::kTriangle: return v >= -0.95 && v <= 0.8 && across <= (v + 0.95) * (1 / 1.75);
    case Shape::kCross: break;
  }
  return (across <= 0.33 && along <= 0.95) || (along <= 0.33 && across <= 0.95);
}

Colour darker(const Colour& colour) {
  return {static_cast<std::uint8_t>(colour[0] / 2), static_cast<std::uint8_t>(colour[1] / 2),
          static_cast<std::uint8_t>(colour[2] / 2)};
}

// Mixes each pixel of a box with the colours that `colour_at` gives for 16 places in it; null leaves a place as it is.
// `near` reports for a pixel's centre whether any of them may have one.
template <typename Near, typename ColourAt>
void draw_around(media::Image& image, Point low, Point high, const Near& near,
                 const ColourAt& colour_at) {
  constexpr int kSide = 4;
  const int left = std::max(0, static_cast<int>(std::floor(low.x)));
  const int top = std::max(0, static_cast<int>(std::floor(low.y)));
  const int right = std::min(image.width - 1, static_cast<int>(std::floor(high.x)));
  const int bottom = std::min(image.height - 1, static_cast<int>(std::floor(high.y)));
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      if (!near(x + 0.5, y + 0.5)) continue;
      std::uint8_t* pixel = image.pixel(x, y);
      int sums[3] = {};
      for (int i = 0; i < kSide * kSide; ++i) {
        const Colour* colour =
            colour_at(x + (i % kSide + 0.5) / kSide, y + (i / kSide + 0.5) / kSide);
        for (std::size_t c = 0; c < 3; ++c) sums[c] += colour ? (*colour)[c] : pixel[c];
      }
      for (std::size_t c = 0; c < 3; ++c)
        pixel[c] = static_cast<std::uint8_t>((sums[c] + kSide * kSide / 2) / (kSide * kSide));
    }
}

}  // namespace

void fill(media::Image& image, const Colour& top, const Colour& bottom) {
  const int last = std::max(1, image.height - 1);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        image.pixel(x, y)[c] =
            static_cast<std::uint8_t>((top[c] * (last - y) + bottom[c] * y) / last);
}

void draw_shape(media::Image& image, Shape shape, Point centre, double radius, const Colour& colour,
                bool striped) {
  const Colour dark = striped ? darker(colour) : colour;
  draw_around(
      image, {centre.x - radius, centre.y - radius}, {centre.x + radius, centre.y + radius},
      [](double, double) { return true; },
      [&](double x, double y) -> const Colour* {
        const double u = (x - centre.x) / radius, v = (y - centre.y) / radius;
        if (!inside_shape(shape, u, v)) return nullptr;
        return static_cast<int>(std::floor(2 * (u + 1))) % 2 == 0 ? &colour : &dark;
      });
}

void draw_line(media::Image& image, Point from, Point to, double width, const Colour& colour) {
  const double half = width / 2;
  const double dx = to.x - from.x, dy = to.y - from.y, length = dx * dx + dy * dy;
  const auto within = [&](double x, double y, double reach) {
    const double share = ((x - from.x) * dx + (y - from.y) * dy) / length;
    const double along = length > 0 ? std::clamp(share, 0.0, 1.0) : 0;
    const double off_x = x - from.x - along * dx, off_y = y - from.y - along * dy;
    return off_x * off_x + off_y * off_y <= reach * reach;
  };
  draw_around(
      image, {std::min(from.x, to.x) - half, std::min(from.y, to.y) - half},
      {std::max(from.x, to.x) + half, std::max(from.y, to.y) + half},
      [&](double x, double y) { return within(x, y, half + 0.75); },
      [&](double x, double y) { return within(x, y, half) ? &colour : nullptr; });
}

}  // namespace trireme::synthetic
