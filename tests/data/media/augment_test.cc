// Operations of RandAugment against Pillow 9.4; tests/data/media/augment_pillow.py prints the table.
#include "trireme/data/media/augment.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

namespace trireme::media::augment_test {
namespace {

Image picture() {
  Image image(23, 17);
  for (int y = 0; y < 17; ++y)
    for (int x = 0; x < 23; ++x) {
      image.pixel(x, y)[0] = static_cast<std::uint8_t>((37 * x + 11 * y) % 251);
      image.pixel(x, y)[1] = static_cast<std::uint8_t>((x * x + 3 * y) % 241);
      image.pixel(x, y)[2] = static_cast<std::uint8_t>((5 * x * y + 20) % 200);
    }
  return image;
}

// Of all values, and of each times its place modulo 1009.
struct Sums {
  std::int64_t plain = 0, placed = 0;
};

Sums sums_of(const Image& image) {
  Sums sums;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    sums.plain += image.rgb[i];
    sums.placed += static_cast<std::int64_t>(i % 1009) * image.rgb[i];
  }
  return sums;
}

constexpr std::array<std::array<Sums, kOperations>, 2> kOfPillow = {{
    {{{133569, 61670284},
      {197724, 91363076},
      {178921, 77691313},
      {126576, 55013330},
      {84544, 39127680},
      {94819, 43455434},
      {180194, 81244497},
      {122296, 56020090},
      {123330, 57323655},
      {178542, 82393925},
      {122260, 56475829},
      {124740, 57572389},
      {124955, 56162437},
      {139736, 63265883},
      {133547, 61255642}}},
    {{{133569, 61670284},
      {197724, 91363076},
      {178921, 77691313},
      {127977, 57944790},
      {84544, 39127680},
      {94819, 43455434},
      {180194, 81244497},
      {120066, 55434986},
      {120012, 54051699},
      {40636, 18736339},
      {119168, 54865535},
      {120636, 55097477},
      {121956, 54141932},
      {129537, 58295384},
      {129009, 54794489}}},
}};

TEST(Augment, OperationsAreThoseOfPillow) {
  const Image image = picture();
  for (const int sign : {1, -1})
    for (int i = 0; i < kOperations; ++i) {
      const auto operation = static_cast<Operation>(i);
      const Sums wanted = kOfPillow[sign == 1 ? 0 : 1][i];
      const Image made = augmented(image, operation, {.level = 7.3, .sign = sign});
      ASSERT_EQ(made.rgb.size(), image.rgb.size());
      const Sums found = sums_of(made);
      EXPECT_EQ(found.plain, wanted.plain) << "operation " << i << " sign " << sign;
      EXPECT_EQ(found.placed, wanted.placed) << "operation " << i << " sign " << sign;
    }
}

TEST(Augment, OfNoStrengthAPictureStays) {
  const Image image = picture();
  for (const Operation operation :
       {Operation::kRotate, Operation::kSolarizeAdd, Operation::kColor, Operation::kContrast,
        Operation::kBrightness, Operation::kSharpness, Operation::kShearX, Operation::kShearY,
        Operation::kTranslateX, Operation::kTranslateY})
    EXPECT_EQ(augmented(image, operation, {.level = 0}), image) << static_cast<int>(operation);
}

}  // namespace
}  // namespace trireme::media::augment_test
