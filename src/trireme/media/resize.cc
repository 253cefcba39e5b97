#include "trireme/media/resize.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme::media {
namespace {

// What one new pixel of a line takes of the old ones.
struct Taps {
  int first = 0;
  std::vector<float> weights{};  // their sum is 1
};

double weight_of(Filter filter, double distance, double scale) {
  if (filter == Filter::kBilinear) return std::max(0.0, 1 - std::abs(distance) / scale);
  // How much of the old pixel [d - 1/2, d + 1/2] lies within the new one, [-scale/2, scale/2].
  return std::max(0.0, std::min(distance + 0.5, scale / 2) - std::max(distance - 0.5, -scale / 2));
}

std::vector<Taps> taps_of(int from, int to, Filter filter) {
  const double step = static_cast<double>(from) / to;
  const double scale = filter == Filter::kBilinear ? std::max(1.0, step) : step;
  const double reach = filter == Filter::kBilinear ? scale : scale / 2 + 0.5;
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * step - 0.5;  // in old pixels
    const int low = std::max(0, static_cast<int>(std::floor(centre - reach)));
    const int high = std::min(from - 1, static_cast<int>(std::ceil(centre + reach)));
    std::vector<double> weights;
    double sum = 0;
    for (int k = low; k <= high; ++k) {
      weights.push_back(weight_of(filter, k - centre, scale));
      sum += weights.back();
    }
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = low;
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return all;
}

// Lines of `count` positions, `stride` values apart, whose values are `old` and become `made`.
template <typename Old, typename Made, typename Store>
void apply_taps(const std::vector<Taps>& all, const Old* old, Made* made, std::size_t stride,
                const Store& store) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Taps& taps = all[i];
    for (std::size_t channel = 0; channel < stride; ++channel) {
      float sum = 0;
      const Old* at = old + static_cast<std::size_t>(taps.first) * stride + channel;
      for (const float weight : taps.weights) {
        sum += weight * static_cast<float>(*at);
        at += stride;
      }
      made[i * stride + channel] = store(sum);
    }
  }
}

std::uint8_t rounded(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

}  // namespace

Image resize(const Image& image, int width, int height, Filter filter) {
  if (width <= 0 || height <= 0 || static_cast<std::int64_t>(width) * height > kMaxPixels)
    fail(ErrorKind::kUsage, "a picture cannot become {} x {} pixels", width, height);
  if (width == image.width && height == image.height) return image;
  // Rows first, then columns: as one line of positions that are whole rows.
  const std::size_t old_row = 3 * static_cast<std::size_t>(image.width);
  const std::size_t row = 3 * static_cast<std::size_t>(width);
  const std::vector<Taps> across = taps_of(image.width, width, filter);
  std::vector<float> narrowed(row * static_cast<std::size_t>(image.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y)
    apply_taps(across, image.rgb.data() + y * old_row, narrowed.data() + y * row, 3,
               [](float sum) { return sum; });
  Image made(width, height);
  apply_taps(taps_of(image.height, height, filter), narrowed.data(), made.rgb.data(), row, rounded);
  return made;
}

Image crop(const Image& image, int x, int y, int width, int height) {
  if (x < 0 || y < 0 || width <= 0 || height <= 0 || x > image.width - width ||
      y > image.height - height)
    fail(ErrorKind::kUsage, "{} x {} pixels from ({}, {}) are not inside a picture of {} x {}",
         width, height, x, y, image.width, image.height);
  Image part(width, height);
  for (int row = 0; row < height; ++row)
    std::copy_n(image.pixel(x, y + row), 3 * static_cast<std::size_t>(width), part.pixel(0, row));
  return part;
}

Image flip_horizontal(const Image& image) {
  Image flipped(image.width, image.height);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      std::copy_n(image.pixel(x, y), 3, flipped.pixel(image.width - 1 - x, y));
  return flipped;
}

}  // namespace trireme::media
