#include "trireme/families/vlm/samples_questions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "trireme/base/hash.h"
#include "trireme/data/loaders/samples/synthetic.h"

namespace trireme::loaders {
namespace {

constexpr std::string_view kBlockLetters = "rgbycm";
constexpr std::array<std::array<double, 3>, 6> kBlockColours = {
    {{1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}, {1, 1, -1}, {-1, 1, 1}, {1, -1, 1}}};
constexpr std::array<std::array<std::int64_t, 2>, 6> kBlockShapes = {
    {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 1}, {1, 3}}};     // columns, rows
constexpr std::int64_t kWithoutImage = 8, kTwoImages = 8;  // one in so many

enum QuestionStream : std::uint64_t { kQuestionWords = 21, kBlockSize, kBlockPixels, kApart };

Draws draws(std::int64_t seed, QuestionStream stream, std::int64_t number) {
  return {static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(seed), stream)), number};
}

// Of a colour from -1 to 1.
std::uint8_t byte_of(double colour) {
  return static_cast<std::uint8_t>(std::lround(127.5 * (1 + std::clamp(colour, -1.0, 1.0))));
}

char letter(std::int64_t colour) { return kBlockLetters[colour]; }

}  // namespace

Question question(std::int64_t seed, std::int64_t number) {
  Draws draw = draws(seed, kQuestionWords, number);
  const auto colours = std::ssize(kBlockLetters);
  Question made;
  if (draw.below(kWithoutImage) == 0) {
    const std::int64_t colour = draw.below(colours);
    made.question = fmt::format("after {}?", letter(colour));
    made.answer = letter((colour + 1) % colours);
    return made;
  }
  const auto shape = kBlockShapes[draw.below(std::ssize(kBlockShapes))];
  made.columns = shape[0];
  made.rows = shape[1];
  for (std::int64_t block = 0; block < made.columns * made.rows; ++block)
    made.colours.push_back(draw.below(colours));
  if (draw.below(2) == 0) made.before = "see ";
  if (draw.below(2) == 0) {
    made.question = "code?";
    for (const std::int64_t colour : made.colours) made.answer += letter(colour);
  } else {
    const std::int64_t block = draw.below(std::ssize(made.colours));
    made.question = fmt::format("block {}?", block + 1);
    made.answer = letter(made.colours[block]);
  }
  if (made.colours.size() == 2 && draws(seed, kApart, number).below(kTwoImages) == 0) {
    made.columns = made.rows = 1;
    made.apart = true;
  }
  return made;
}

formats::ImageSize image_size(const Question& question, std::int64_t side, std::int64_t seed,
                              std::int64_t number) {
  Draws draw = draws(seed, kBlockSize, number);
  const std::int64_t block =
      std::max<std::int64_t>(2, 3 * side / 8 + draw.below(std::max<std::int64_t>(1, side / 4)));
  return {.width = question.columns * block, .height = question.rows * block};
}

std::vector<media::Image> draw(const Question& question, std::int64_t side, std::int64_t seed,
                               std::int64_t number) {
  if (!question.has_image()) return {};
  const formats::ImageSize size = image_size(question, side, seed, number);
  const auto width = static_cast<int>(size.width), height = static_cast<int>(size.height);
  const auto columns = static_cast<int>(question.columns), block = width / columns;
  Draws draw = draws(seed, kBlockPixels, number);
  std::vector<double> strength;
  for (std::size_t i = 0; i < question.colours.size(); ++i)
    strength.push_back(draw.uniform(0.8, 1.2));
  std::vector<media::Image> images;
  for (int i = 0; i < question.images(); ++i) {
    media::Image& image = images.emplace_back(width, height);
    for (std::size_t channel = 0; channel < 3; ++channel)
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
          const auto at = static_cast<std::size_t>(i + y / block * columns + x / block);
          const bool edge = x % block == 0 || y % block == 0;
          const double colour =
              edge ? 0 : strength[at] * kBlockColours[question.colours[at]][channel];
          image.pixel(x, y)[channel] = byte_of(colour + 0.05 * draw.normal());
        }
  }
  return images;
}

}  // namespace trireme::loaders
