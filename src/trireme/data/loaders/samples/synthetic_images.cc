#include "trireme/data/loaders/samples/synthetic_images.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme::loaders {
namespace {

using Colour = std::array<double, 3>;

struct NamedColour {
  std::string_view name;
  Colour value;
};
constexpr std::array kColours = {NamedColour{"red", {1, 0, 0}},    NamedColour{"green", {0, 1, 0}},
                                 NamedColour{"blue", {0, 0, 1}},   NamedColour{"yellow", {1, 1, 0}},
                                 NamedColour{"purple", {1, 0, 1}}, NamedColour{"white", {1, 1, 1}}};
constexpr std::array<std::string_view, 4> kShapes = {"square", "disc", "cross", "ring"};
constexpr std::array<std::string_view, 4> kQuarters = {"top left", "top right", "bottom left",
                                                       "bottom right"};

// Of a key, so that the patterns, and what is drawn on them, do not follow each other.
enum class ImageStream { kStripes = 1, kScenes, kPixels };

std::int64_t stream(std::int64_t seed, ImageStream which) {
  return static_cast<std::int64_t>(
      mix(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(which)));
}

// Float [3, frames, side, side] of samples, of which the first frame is drawn.
class Images {
 public:
  Images(std::size_t count, const config::Vision& vision)
      : side_(vision.image),
        all_(at::zeros({static_cast<std::int64_t>(count), 3, 1, side_, side_})),
        frames_(vision.frames) {}

  // Calls `colour` with the row and column of each pixel, and adds noise.
  template <typename ColourAt>
  void paint(std::size_t sample, double noise, Draws& draws, ColourAt colour_at) {
    float* const image =
        all_.data_ptr<float>() + static_cast<std::int64_t>(sample) * 3 * side_ * side_;
    for (std::int64_t row = 0; row < side_; ++row)
      for (std::int64_t column = 0; column < side_; ++column) {
        const Colour colour = colour_at(row, column);
        for (std::size_t channel = 0; channel < 3; ++channel)
          image[(static_cast<std::int64_t>(channel) * side_ + row) * side_ + column] =
              static_cast<float>(colour[channel] + noise * draws.normal());
      }
  }
  at::Tensor clips() const { return all_.expand({-1, -1, frames_, -1, -1}).contiguous(); }

 private:
  std::int64_t side_;
  at::Tensor all_;
  std::int64_t frames_;
};

// Which of two kinds of bands a pixel is in.
bool in_band(Pattern pattern, std::int64_t row, std::int64_t column) {
  const auto odd = [](std::int64_t place) { return place / 2 % 2 != 0; };
  switch (pattern) {
    case Pattern::kRows: return odd(row);
    case Pattern::kColumns: return odd(column);
    case Pattern::kRising: return odd(row + column);
    case Pattern::kFalling: return odd(row - column + (1 << 16));
    case Pattern::kChecker: return odd(row) != odd(column);
  }
  return false;
}

// Of a shape of size 1 around the origin.
bool covers(std::int64_t shape, double y, double x) {
  const double ay = std::abs(y), ax = std::abs(x), r = std::hypot(y, x);
  switch (shape) {
    case 0: return ay < 0.85 && ax < 0.85;
    case 1: return r < 1;
    case 2: return (ay < 0.3 && ax < 1) || (ax < 0.3 && ay < 1);
    default: return r < 1 && r > 0.55;
  }
}

// A shape with its place, in pixels.
struct Placed {
  Thing thing;
  double row, column, size;
};

Placed placed(const Thing& thing, std::int64_t side, Draws& draws) {
  const double half = static_cast<double>(side) / 2;
  const auto centre = [&](bool second) {
    return half * (second ? 1.5 : 0.5) + half * draws.uniform(-0.1, 0.1) - 0.5;
  };
  const double row = centre(thing.quarter >= 2), column = centre(thing.quarter % 2 == 1);
  return {.thing = thing, .row = row, .column = column, .size = half * draws.uniform(0.3, 0.38)};
}

}  // namespace

std::vector<at::Tensor> stripes(const config::Job& job, std::span<const std::int64_t> numbers) {
  constexpr double kAmplitude = 0.8, kNoise = 0.02;
  Images images(numbers.size(), job.vision);
  const at::Tensor labels =
      at::empty({static_cast<std::int64_t>(numbers.size())}, at::TensorOptions().dtype(at::kLong));
  for (std::size_t sample = 0; sample < numbers.size(); ++sample) {
    Draws draws(stream(job.data.seed, ImageStream::kStripes), numbers[sample]);
    const std::int64_t label = draws.below(kPatterns);
    labels.data_ptr<std::int64_t>()[sample] = label;
    const std::int64_t down = draws.below(4), right = draws.below(4);
    Colour colour;
    for (double& channel : colour) channel = kAmplitude * draws.uniform(0.25, 1);
    images.paint(sample, kNoise, draws, [&](std::int64_t row, std::int64_t column) {
      const double sign = in_band(static_cast<Pattern>(label), row + down, column + right) ? 1 : -1;
      return Colour{sign * colour[0], sign * colour[1], sign * colour[2]};
    });
  }
  return {images.clips(), labels};
}

std::string Scene::caption() const {
  std::string text;
  for (const Thing& thing : things)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", kColours[thing.colour].name,
                        kShapes[thing.shape], kQuarters[thing.quarter]);
  return text;
}

Scene scene(std::int64_t seed, std::int64_t number) {
  Draws draws(stream(seed, ImageStream::kScenes), number);
  Scene result;
  const auto add = [&](std::int64_t quarter) {
    result.things.push_back({.colour = draws.below(std::ssize(kColours)),
                             .shape = draws.below(std::ssize(kShapes)),
                             .quarter = quarter});
  };
  const std::int64_t one = draws.below(4), other = draws.below(4);
  add(std::min(one, other));
  if (one != other) add(std::max(one, other));
  return result;
}

std::vector<at::Tensor> scenes(const config::Job& job, std::span<const std::int64_t> numbers) {
  constexpr double kNoise = 0.05;
  const auto count = static_cast<std::int64_t>(numbers.size());
  const std::int64_t tokens = job.model.seq_len;
  Images images(numbers.size(), job.vision);
  const auto options = at::TensorOptions().dtype(at::kLong);
  const at::Tensor captions = at::zeros({count, tokens}, options);
  const at::Tensor ends = at::empty({count}, options);
  for (std::size_t sample = 0; sample < numbers.size(); ++sample) {
    const Scene made = scene(job.data.seed, numbers[sample]);
    Draws draws(stream(job.data.seed, ImageStream::kPixels), numbers[sample]);
    std::vector<Placed> shapes;
    for (const Thing& thing : made.things) shapes.push_back(placed(thing, job.vision.image, draws));
    images.paint(sample, kNoise, draws, [&](std::int64_t row, std::int64_t column) {
      for (const Placed& one : shapes)
        if (covers(one.thing.shape, (static_cast<double>(row) - one.row) / one.size,
                   (static_cast<double>(column) - one.column) / one.size))
          return kColours[one.thing.colour].value;
      return Colour{};
    });
    const std::string text = made.caption();
    TRIREME_CHECK(std::ssize(text) < tokens, "a caption of {} bytes in {} tokens", text.size(),
                  tokens);
    std::int64_t* const row =
        captions.data_ptr<std::int64_t>() + static_cast<std::int64_t>(sample) * tokens;
    for (std::size_t i = 0; i < text.size(); ++i) row[i] = static_cast<unsigned char>(text[i]);
    ends.data_ptr<std::int64_t>()[sample] = std::ssize(text);
  }
  return {images.clips(), captions, ends};
}

Sources open_stripes(const config::Job& job) {
  return synthetic_sources(
      job, [job](std::span<const std::int64_t> numbers) { return stripes(job, numbers); });
}

Sources open_scenes(const config::Job& job) {
  return synthetic_sources(
      job, [job](std::span<const std::int64_t> numbers) { return scenes(job, numbers); });
}

}  // namespace trireme::loaders
