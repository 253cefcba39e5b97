#include "trireme/data/media/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::media {
namespace {

// What one new pixel of a line takes of the old ones.
template <typename Weight>
struct Taps {
  int first = 0;
  std::vector<Weight> weights{};  // their sum is 1
};

double keys_kernel(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

// `distance` in old pixels; `scale` of them are a new one, or 1 where a smoothed side grows.
double weight_of(Filter filter, double distance, double scale) {
  switch (filter) {
    case Filter::kBilinear: return std::max(0.0, 1 - std::abs(distance) / scale);
    case Filter::kBicubic: return keys_kernel(distance * (1 / scale));
    case Filter::kArea: break;
  }
  // How much of the old pixel [d - 1/2, d + 1/2] lies within the new one, [-scale/2, scale/2].
  return std::max(0.0, std::min(distance + 0.5, scale / 2) - std::max(distance - 0.5, -scale / 2));
}

std::vector<Taps<double>> taps_of(int from, int to, Filter filter) {
  const double step = static_cast<double>(from) / to;
  const double scale = filter == Filter::kArea ? step : std::max(1.0, step);
  const double reach = filter == Filter::kArea      ? scale / 2 + 0.5
                       : filter == Filter::kBicubic ? 2 * scale
                                                    : scale;
  std::vector<Taps<double>> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * step - 0.5;  // in old pixels
    const int low = std::max(0, static_cast<int>(std::floor(centre - reach)));
    const int high = std::min(from - 1, static_cast<int>(std::ceil(centre + reach)));
    Taps<double>& taps = all[i];
    taps.first = low;
    double sum = 0;
    for (int k = low; k <= high; ++k) {
      taps.weights.push_back(weight_of(filter, k - centre, scale));
      sum += taps.weights.back();
    }
    for (double& weight : taps.weights) weight /= sum;
  }
  return all;
}

template <typename Weight, typename Round>
std::vector<Taps<Weight>> in_type(const std::vector<Taps<double>>& exact, const Round& round) {
  std::vector<Taps<Weight>> all(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    all[i].first = exact[i].first;
    for (const double weight : exact[i].weights) all[i].weights.push_back(round(weight));
  }
  return all;
}

// Lines of `count` positions, `stride` values apart, whose values are `old` and become `made`.
template <typename Weight, typename Old, typename Made, typename Store>
void apply_taps(const std::vector<Taps<Weight>>& all, const Old* old, Made* made,
                std::size_t stride, const Store& store) {
  std::vector<Weight> sums(stride);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Taps<Weight>& taps = all[i];
    std::fill(sums.begin(), sums.end(), Weight{});
    const Old* at = old + static_cast<std::size_t>(taps.first) * stride;
    for (const Weight weight : taps.weights) {
      for (std::size_t channel = 0; channel < stride; ++channel)
        sums[channel] += weight * static_cast<Weight>(at[channel]);
      at += stride;
    }
    for (std::size_t channel = 0; channel < stride; ++channel)
      made[i * stride + channel] = store(sums[channel]);
  }
}

// Rows first, then columns: as one line of positions that are whole rows. `Between` is the type of what lies between.
template <typename Between, typename Weight, typename Round, typename StoreRow, typename Store>
Image resized(const Image& image, int width, int height, Filter filter, const Round& round,
              const StoreRow& store_row, const Store& store) {
  const std::size_t old_row = 3 * static_cast<std::size_t>(image.width);
  const std::size_t row = 3 * static_cast<std::size_t>(width);
  const auto across = in_type<Weight>(taps_of(image.width, width, filter), round);
  std::vector<Between> narrowed(row * static_cast<std::size_t>(image.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y)
    apply_taps(across, image.rgb.data() + y * old_row, narrowed.data() + y * row, 3, store_row);
  Image made(width, height);
  apply_taps(in_type<Weight>(taps_of(image.height, height, filter), round), narrowed.data(),
             made.rgb.data(), row, store);
  return made;
}

Image resized_in_floats(const Image& image, int width, int height, Filter filter) {
  return resized<float, float>(
      image, width, height, filter, [](double weight) { return static_cast<float>(weight); },
      [](float sum) { return sum; },
      [](float sum) { return static_cast<std::uint8_t>(std::clamp(sum + 0.5f, 0.0f, 255.0f)); });
}

// Weights are whole multiples of 2^-22, so sums of 8-bit values fit into 32 bits.
Image resized_in_whole_numbers(const Image& image, int width, int height, Filter filter) {
  constexpr int kBits = 22;
  const auto round = [](double weight) {
    return static_cast<std::int32_t>(std::lround(weight * (1 << kBits)));
  };
  const auto store = [](std::int32_t sum) {
    return static_cast<std::uint8_t>(std::clamp((sum + (1 << (kBits - 1))) >> kBits, 0, 255));
  };
  return resized<std::uint8_t, std::int32_t>(image, width, height, filter, round, store, store);
}

}  // namespace

Image resize(const Image& image, int width, int height, Filter filter) {
  if (width <= 0 || height <= 0 || static_cast<std::int64_t>(width) * height > kMaxPixels)
    fail(ErrorKind::kUsage, "a picture cannot become {} x {} pixels", width, height);
  if (width == image.width && height == image.height) return image;
  return filter == Filter::kBicubic ? resized_in_whole_numbers(image, width, height, filter)
                                    : resized_in_floats(image, width, height, filter);
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
