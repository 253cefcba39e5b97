#include "trireme/data/loaders/samples/augmentation.h"

#include <cmath>

#include "trireme/data/media/augment.h"

namespace trireme::loaders {

std::vector<media::Image> augment(std::vector<media::Image> frames, std::int64_t count,
                                  Draws& draws) {
  constexpr double kLevel = 7, kDeviation = 0.5;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto operation = static_cast<media::Operation>(draws.below(media::kOperations));
    const bool applied = draws.below(2) == 1;
    const media::Strength strength{.level = kLevel + kDeviation * draws.normal(),
                                   .sign = draws.below(2) == 1 ? 1 : -1};
    if (!applied) continue;
    for (media::Image& frame : frames) frame = media::augmented(frame, operation, strength);
  }
  return frames;
}

void erase(at::Tensor& clip, double probability, Draws& draws) {
  constexpr int kTries = 100;
  constexpr double kLeast = 0.02, kMost = 1.0 / 3, kNarrowest = 0.3;
  if (draws.uniform(0, 1) >= probability) return;
  const std::int64_t height = clip.size(2), width = clip.size(3);
  for (int i = 0; i < kTries; ++i) {
    const double area = draws.uniform(kLeast, kMost) * static_cast<double>(height * width);
    const double aspect = std::exp(draws.uniform(std::log(kNarrowest), -std::log(kNarrowest)));
    const std::int64_t high = std::lround(std::sqrt(area * aspect)),
                       wide = std::lround(std::sqrt(area / aspect));
    if (high < 1 || wide < 1 || high >= height || wide >= width) continue;
    const std::int64_t top = draws.below(height - high + 1), left = draws.below(width - wide + 1);
    auto values = clip.accessor<float, 4>();
    for (std::int64_t channel = 0; channel < clip.size(0); ++channel)
      for (std::int64_t frame = 0; frame < clip.size(1); ++frame)
        for (std::int64_t y = top; y < top + high; ++y)
          for (std::int64_t x = left; x < left + wide; ++x)
            values[channel][frame][y][x] = static_cast<float>(draws.normal());
    return;
  }
}

}  // namespace trireme::loaders
