// Synthetic images: patterns with labels, and coloured shapes with captions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/loaders/samples/synthetic.h"

namespace trireme::loaders {

// The classes of stripes.
enum class Pattern { kRows, kColumns, kRising, kFalling, kChecker };
inline constexpr std::int64_t kPatterns = 5;

// Outputs of each: float [3, frames, image, image], all frames equal, and its class, int64. Bands of 2 pixels in a
// random colour of amplitude 0.8 and a random phase, with noise of 0.02. No pixel and no mean reveals the class.
std::vector<at::Tensor> stripes(const config::Job& job, std::span<const std::int64_t> numbers);

// A shape in one of the four quarters of an image.
struct Thing {
  std::int64_t colour, shape, quarter;
};
struct Scene {
  std::vector<Thing> things;    // one or two, by quarter
  std::string caption() const;  // "red disc top left, blue ring bottom right"
};
Scene scene(std::int64_t seed, std::int64_t number);

// Outputs of each: float [3, frames, image, image] in [0, 1] except for noise of 0.05; its caption as bytes, int64
// [seq_len], of which the first 0 is its end and fills the rest; the place of that end, int64.
std::vector<at::Tensor> scenes(const config::Job& job, std::span<const std::int64_t> numbers);

Sources open_stripes(const config::Job& job);
Sources open_scenes(const config::Job& job);

}  // namespace trireme::loaders
