#include "trireme/data/media/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "trireme/base/error.h"

namespace trireme::media {
namespace {

constexpr double kHighest = 10;  // level
constexpr std::uint8_t kOutside = 128;

using Table = std::array<std::uint8_t, 256>;  // what a value becomes

std::uint8_t truncated(double value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
}

// The table of each channel, from its histogram.
template <typename TableOf>
Image by_histogram(const Image& image, const TableOf& table_of) {
  Image made = image;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    std::array<std::int64_t, 256> histogram{};
    for (std::size_t i = channel; i < image.rgb.size(); i += 3) ++histogram[image.rgb[i]];
    const Table table = table_of(histogram);
    for (std::size_t i = channel; i < image.rgb.size(); i += 3) made.rgb[i] = table[image.rgb[i]];
  }
  return made;
}

template <typename ValueOf>
Image by_value(const Image& image, const ValueOf& value_of) {
  Image made = image;
  for (std::uint8_t& value : made.rgb) value = static_cast<std::uint8_t>(value_of(int{value}));
  return made;
}

Table as_it_is() {
  Table table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i);
  return table;
}

// Stretched from the least value to the largest.
Table stretched(const std::array<std::int64_t, 256>& histogram) {
  const auto occurs = [](std::int64_t count) { return count > 0; };
  const auto low = std::ranges::find_if(histogram, occurs) - histogram.begin();
  const auto high =
      255 - (std::find_if(histogram.rbegin(), histogram.rend(), occurs) - histogram.rbegin());
  Table table = as_it_is();
  if (high <= low) return table;
  const double scale = 255.0 / static_cast<double>(high - low);
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = truncated(static_cast<double>(i) * scale - static_cast<double>(low) * scale);
  return table;
}

// As many pixels of each new value, as far as equal pixels stay equal.
Table equalized(const std::array<std::int64_t, 256>& histogram) {
  std::int64_t all = 0, last = 0;
  for (const std::int64_t count : histogram) {
    all += count;
    if (count > 0) last = count;
  }
  Table table = as_it_is();
  const std::int64_t step = (all - last) / 255;
  if (step == 0) return table;
  std::int64_t before = step / 2;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(std::min<std::int64_t>(255, before / step));
    before += histogram[i];
  }
  return table;
}

std::uint8_t luminance(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >>
                                   16);
}

Image grey(const Image& image) {
  Image made = image;
  for (std::size_t i = 0; i < made.rgb.size(); i += 3)
    std::fill_n(made.rgb.begin() + static_cast<std::ptrdiff_t>(i), 3, luminance(&image.rgb[i]));
  return made;
}

// One grey: the mean.
Image mean_of(const Image& image) {
  double sum = 0;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) sum += luminance(&image.rgb[i]);
  Image made = image;
  const double mean = sum / (static_cast<double>(image.rgb.size()) / 3);
  std::ranges::fill(made.rgb, static_cast<std::uint8_t>(mean + 0.5));
  return made;
}

// Each pixel counts five times and its eight neighbours once; the border stays.
Image smoothed(const Image& image) {
  Image made = image;
  for (int y = 1; y + 1 < image.height; ++y)
    for (int x = 1; x + 1 < image.width; ++x)
      for (int channel = 0; channel < 3; ++channel) {
        float sum = 4.0f * image.pixel(x, y)[channel];
        for (int row = y - 1; row <= y + 1; ++row)
          for (int column = x - 1; column <= x + 1; ++column)
            sum += image.pixel(column, row)[channel];
        made.pixel(x, y)[channel] = truncated(sum / 13 + 0.5f);
      }
  return made;
}

// From `plain` (0) to the image (1), and beyond it.
Image enhanced(const Image& plain, const Image& image, const Strength& strength) {
  const auto factor = static_cast<float>(1 + strength.sign * strength.level / kHighest * 0.9);
  Image made = image;
  for (std::size_t i = 0; i < made.rgb.size(); ++i) {
    const float from = plain.rgb[i], to = image.rgb[i];
    made.rgb[i] = truncated(from + factor * (to - from));
  }
  return made;
}

// The cubic through the second and third of four values in a line, `share` of the way. Its slopes there are the
// differences of the values on both sides.
double cubic(const std::array<double, 4>& v, double share) {
  const double slope = v[2] - v[0];
  const double square = 2 * (v[0] - v[1]) + v[2] - v[3];
  const double cube = v[1] - v[0] - v[2] + v[3];
  return v[1] + share * (slope + share * (square + share * cube));
}

// Where the pixels of a new picture come from: x' = a x + b y + c, y' = d x + e y + f, of pixel centres.
struct Affine {
  double a = 1, b = 0, c = 0;
  double d = 0, e = 1, f = 0;
};

std::uint8_t interpolated(const Image& image, double x, double y, int channel) {
  const int left = static_cast<int>(std::floor(x)), top = static_cast<int>(std::floor(y));
  const auto pixel = [&](int column, int row) -> double {
    return image.pixel(std::clamp(column, 0, image.width - 1),
                       std::clamp(row, 0, image.height - 1))[channel];
  };
  std::array<double, 4> lines{};
  for (int line = 0; line < 4; ++line) {
    const int row = top - 1 + line;
    lines[line] =
        cubic({pixel(left - 1, row), pixel(left, row), pixel(left + 1, row), pixel(left + 2, row)},
              x - left);
  }
  return truncated(cubic(lines, y - top));
}

Image moved(const Image& image, const Affine& from) {
  Image made(image.width, image.height);
  for (int row = 0; row < image.height; ++row)
    for (int column = 0; column < image.width; ++column) {
      const double x = from.a * (column + 0.5) + from.b * (row + 0.5) + from.c;
      const double y = from.d * (column + 0.5) + from.e * (row + 0.5) + from.f;
      const bool inside = x >= 0 && y >= 0 && x < image.width && y < image.height;
      for (int channel = 0; channel < 3; ++channel)
        made.pixel(column, row)[channel] =
            inside ? interpolated(image, x - 0.5, y - 0.5, channel) : kOutside;
    }
  return made;
}

// Against the clock, about the middle.
Image rotated(const Image& image, double degrees) {
  const double angle = -degrees * std::numbers::pi / 180, x = image.width / 2.0,
               y = image.height / 2.0;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  return moved(image, {.a = cosine,
                       .b = sine,
                       .c = x - cosine * x - sine * y,
                       .d = -sine,
                       .e = cosine,
                       .f = y + sine * x - cosine * y});
}

}  // namespace

Image augmented(const Image& image, Operation operation, const Strength& strength) {
  const double share = std::clamp(strength.level, 0.0, kHighest) / kHighest;
  const double signed_share = strength.sign * share;
  switch (operation) {
    case Operation::kAutoContrast: return by_histogram(image, stretched);
    case Operation::kEqualize: return by_histogram(image, equalized);
    case Operation::kInvert: return by_value(image, [](int v) { return 255 - v; });
    case Operation::kRotate: return rotated(image, 30 * signed_share);
    case Operation::kPosterize: {
      const int bits = 4 - static_cast<int>(4 * share);
      return by_value(image, [&](int v) { return v & ~((1 << (8 - bits)) - 1); });
    }
    case Operation::kSolarize: {
      const int limit = 256 - static_cast<int>(256 * share);
      return by_value(image, [&](int v) { return v < limit ? v : 255 - v; });
    }
    case Operation::kSolarizeAdd: {
      const int add = static_cast<int>(110 * share);
      return by_value(image, [&](int v) { return v < 128 ? std::min(255, v + add) : v; });
    }
    case Operation::kColor: return enhanced(grey(image), image, strength);
    case Operation::kContrast: return enhanced(mean_of(image), image, strength);
    case Operation::kBrightness: return enhanced(Image(image.width, image.height), image, strength);
    case Operation::kSharpness: return enhanced(smoothed(image), image, strength);
    case Operation::kShearX: return moved(image, {.b = 0.3 * signed_share});
    case Operation::kShearY: return moved(image, {.d = 0.3 * signed_share});
    case Operation::kTranslateX: return moved(image, {.c = 0.45 * signed_share * image.width});
    case Operation::kTranslateY: return moved(image, {.f = 0.45 * signed_share * image.height});
  }
  TRIREME_CHECK(false, "operation {}", static_cast<int>(operation));
}

}  // namespace trireme::media
