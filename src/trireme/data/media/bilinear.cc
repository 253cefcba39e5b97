#include "trireme/data/media/bilinear.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::media {
namespace {

// The two pixels of a line that a new pixel lies between, and the share of the second.
struct Between {
  int low = 0, high = 0;
  double share = 0;
};

std::vector<Between> between(int from, int to) {
  std::vector<Between> all;
  for (int i = 0; i < to; ++i) {
    const double place = std::max(0.0, (i + 0.5) * from / to - 0.5);
    const int low = std::min(static_cast<int>(place), from - 1);
    all.push_back({.low = low, .high = std::min(low + 1, from - 1), .share = place - low});
  }
  return all;
}

double blend(double a, double b, double share) { return a + (b - a) * share; }

}  // namespace

std::vector<float> sample_bilinear(const Image& image, int width, int height) {
  if (width <= 0 || height <= 0)
    fail(ErrorKind::kUsage, "a picture cannot become {} x {} pixels", width, height);
  const std::vector<Between> columns = between(image.width, width),
                             rows = between(image.height, height);
  std::vector<float> values;
  values.reserve(3 * columns.size() * rows.size());
  for (const Between& y : rows)
    for (const Between& x : columns)
      for (int channel = 0; channel < 3; ++channel) {
        const auto across = [&](int row) {
          return blend(image.pixel(x.low, row)[channel], image.pixel(x.high, row)[channel],
                       x.share);
        };
        values.push_back(static_cast<float>(blend(across(y.low), across(y.high), y.share)));
      }
  return values;
}

}  // namespace trireme::media
