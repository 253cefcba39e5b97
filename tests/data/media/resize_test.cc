#include "trireme/data/media/resize.h"

#include <gtest/gtest.h>

#include "tests/data/media/pictures.h"
#include "tests/data/media/pil_bicubic.h"
#include "trireme/base/error.h"

namespace trireme::media::resize_test {
namespace {

// A row of grey values.
Image row_of(const std::vector<std::uint8_t>& values) {
  Image image(static_cast<int>(values.size()), 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::fill_n(image.rgb.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, values[i]);
  return image;
}

std::vector<int> values_of(const Image& image) {
  std::vector<int> values;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) values.push_back(image.rgb[i]);
  return values;
}

TEST(Resize, GrownBilinearlyCentresMatchAndEdgesRepeat) {
  EXPECT_EQ(values_of(resize(row_of({0, 100}), 4, 1)), (std::vector{0, 25, 75, 100}));
}

TEST(Resize, ShrunkBilinearlyNothingIsLeftOut) {
  // Weights of the triangle over four pixels: 1 3 3 1, cut at the edges.
  EXPECT_EQ(values_of(resize(row_of({0, 0, 70, 0}), 2, 1)), (std::vector{10, 30}));
}

TEST(Resize, AreaIsTheMeanOfWhatIsCovered) {
  EXPECT_EQ(values_of(resize(row_of({0, 100, 50, 150}), 2, 1, Filter::kArea)),
            (std::vector{50, 100}));
  EXPECT_EQ(values_of(resize(row_of({0, 90, 30}), 2, 1, Filter::kArea)), (std::vector{30, 50}));
}

TEST(Resize, BothSidesAndEveryChannel) {
  const Image image = gradient(90, 60);
  for (const Filter filter : {Filter::kBilinear, Filter::kArea, Filter::kBicubic}) {
    EXPECT_LT(mean_difference(resize(image, 45, 20, filter), gradient(45, 20)), 3);
    Image constant(7, 5);
    std::fill(constant.rgb.begin(), constant.rgb.end(), 200);
    const Image grown = resize(constant, 13, 11, filter);
    EXPECT_EQ(std::count(grown.rgb.begin(), grown.rgb.end(), 200), 13 * 11 * 3);
  }
  EXPECT_EQ(resize(image, 90, 60), image);
}

// The checksum that zlib.adler32 gives in Python.
std::uint32_t adler32(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t a = 1, b = 0;
  for (const std::uint8_t byte : bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

TEST(Resize, BicubicGivesTheBytesOfPil) {
  const auto is = [](const Image& image, const std::array<std::uint8_t, 192>& pil) {
    return std::equal(image.rgb.begin(), image.rgb.end(), pil.begin(), pil.end());
  };
  EXPECT_TRUE(is(resize(noise(32, 32), 8, 8, Filter::kBicubic), kPilShrunkBy4));
  EXPECT_TRUE(is(resize(noise(64, 64), 8, 8, Filter::kBicubic), kPilShrunkBy8));
  struct Resized {
    ImageSize from, to;
    std::uint32_t pil;
  };
  for (const Resized& one :
       {Resized{{101, 37}, {88, 32}, 690575867}, Resized{{10, 7}, {23, 19}, 2651029661},
        Resized{{300, 200}, {336, 224}, 3543927465}, Resized{{640, 480}, {336, 336}, 2499837351}})
    EXPECT_EQ(adler32(resize(noise(one.from.width, one.from.height), one.to.width, one.to.height,
                             Filter::kBicubic)
                          .rgb),
              one.pil)
        << one.from.width << " x " << one.from.height;
}

TEST(Resize, CropAndFlipAreExact) {
  const Image image = gradient(16, 12);
  const Image part = crop(image, 3, 2, 5, 4);
  EXPECT_EQ(part.width, 5);
  EXPECT_TRUE(std::equal(part.pixel(4, 3), part.pixel(4, 3) + 3, image.pixel(7, 5)));
  const Image flipped = flip_horizontal(image);
  EXPECT_TRUE(std::equal(flipped.pixel(0, 1), flipped.pixel(0, 1) + 3, image.pixel(15, 1)));
  EXPECT_EQ(flip_horizontal(flipped), image);
  EXPECT_THROW(crop(image, 12, 0, 5, 4), Error);
  EXPECT_THROW(resize(image, 0, 4), Error);
}

}  // namespace
}  // namespace trireme::media::resize_test
