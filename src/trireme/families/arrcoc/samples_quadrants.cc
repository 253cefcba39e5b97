#include "trireme/families/arrcoc/samples_quadrants.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/families/arrcoc/keys_checks.h"

namespace trireme::loaders {
namespace {

constexpr std::uint64_t kImages = 0x71a1, kChances = 0x71a2;  // streams of draws

Draws draws_of(const config::Job& job, std::uint64_t stream, std::int64_t number) {
  return {static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(job.data.seed), stream)),
          number};
}

struct Quadrant {
  QuadrantPattern pattern;
  std::int64_t down, right;  // phase in pixels
};

bool bright(const Quadrant& quadrant, std::int64_t row, std::int64_t column) {
  const auto odd = [](std::int64_t place) { return place / 2 % 2 != 0; };
  const std::int64_t y = row + quadrant.down, x = column + quadrant.right;
  switch (quadrant.pattern) {
    case QuadrantPattern::kRows: return odd(y);
    case QuadrantPattern::kColumns: return odd(x);
    case QuadrantPattern::kDiagonal: return odd(x + y);
    case QuadrantPattern::kChecker: return odd(x) != odd(y);
  }
  return false;
}

using Quadrants = std::array<Quadrant, config::kQuadrants>;

void paint(const Quadrants& four, std::int64_t side, Draws& draws, float* to) {
  constexpr double kAmplitude = 0.4, kPixelNoise = 0.02;
  for (std::int64_t row = 0; row < side; ++row)
    for (std::int64_t column = 0; column < side; ++column) {
      const bool lower = 2 * row >= side, right = 2 * column >= side;
      const Quadrant& quadrant = four[(lower ? 2U : 0U) + (right ? 1U : 0U)];
      const double grey = 0.5 + (bright(quadrant, row, column) ? kAmplitude : -kAmplitude);
      for (std::int64_t channel = 0; channel < 3; ++channel)
        to[(channel * side + row) * side + column] =
            static_cast<float>(std::clamp(grey + kPixelNoise * draws.normal(), 0.0, 1.0));
    }
}

}  // namespace

std::vector<at::Tensor> quadrants(const config::Job& job, std::span<const std::int64_t> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  const std::int64_t side = job.vision.image, regions = job.arrcoc.grid * job.arrcoc.grid;
  const auto floats = at::TensorOptions().dtype(at::kFloat);
  const auto longs = at::TensorOptions().dtype(at::kLong);
  const at::Tensor images = at::empty({count, 3, side, side}, floats);
  const std::int64_t tokens = config::text_tokens(job);
  const at::Tensor text = at::zeros({count, tokens}, longs), asked = at::ones({count}, longs);
  const at::Tensor targets = at::full({count, tokens}, kNoTarget, longs);
  const at::Tensor noise = at::empty({count, regions}, floats);
  for (std::int64_t sample = 0; sample < count; ++sample) {
    const std::int64_t number = numbers[sample];
    Draws draws = draws_of(job, kImages, number), chance = draws_of(job, kChances, number);
    Quadrants four;
    for (Quadrant& one : four)
      one = {static_cast<QuadrantPattern>(draws.below(config::kQuadrantPatterns)), draws.below(4),
             draws.below(4)};
    const std::int64_t question = draws.below(config::kQuadrants);
    const auto pattern = static_cast<std::int64_t>(four[question].pattern);
    text.data_ptr<std::int64_t>()[sample * tokens] = question;
    targets.data_ptr<std::int64_t>()[sample * tokens] = config::kQuadrants + pattern;
    paint(four, side, draws, images.data_ptr<float>() + sample * 3 * side * side);
    for (std::int64_t p = 0; p < regions; ++p)
      noise.data_ptr<float>()[sample * regions + p] = static_cast<float>(chance.normal());
  }
  return {images, text, asked, targets, noise};
}

Sources open_quadrants(const config::Job& job) {
  return synthetic_sources(
      job, [job](std::span<const std::int64_t> numbers) { return quadrants(job, numbers); });
}

}  // namespace trireme::loaders
