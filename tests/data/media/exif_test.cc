#include "trireme/data/media/exif.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/data/media/exif_files.h"
#include "tests/data/media/pictures.h"
#include "trireme/data/media/video.h"

namespace trireme::media::exif_test {
namespace {

// Of each orientation what is stored, rows from the top, of a picture that reads "ab", "cd", "ef".
const std::vector<std::vector<std::string>> kStored = {
    {"ab", "cd", "ef"}, {"ba", "dc", "fe"}, {"fe", "dc", "ba"}, {"ef", "cd", "ab"},
    {"ace", "bdf"},     {"bdf", "ace"},     {"fdb", "eca"},     {"eca", "fdb"}};

// A square of one colour for each letter.
Image drawn(const std::vector<std::string>& rows) {
  constexpr int kSide = 16;
  Image image(kSide * static_cast<int>(rows[0].size()), kSide * static_cast<int>(rows.size()));
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      const int letter = rows[y / kSide][x / kSide];
      for (int channel = 0; channel < 3; ++channel)
        image.pixel(x, y)[channel] = static_cast<std::uint8_t>((letter * 41 + channel * 67) % 256);
    }
  return image;
}

TEST(Exif, PicturesOfEveryOrientationAreTurnedInEveryFormat) {
  const Image seen = drawn(kStored[0]);
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
      SCOPED_TRACE(orientation);
      const Image stored = drawn(kStored[orientation - 1]);
      const std::string exif = exif_of_orientation(orientation, order);
      const std::string jpeg = jpeg_with_exif(encode_jpeg(stored, 95), exif);
      const std::string png = png_with_exif(encode_png(stored), exif);
      const std::string webp = webp_with_exif(encode_webp(std::vector{stored}, 1, true),
                                              stored.width, stored.height, exif);
      EXPECT_LT(mean_difference(decode_image(bytes_of(jpeg), "a"), seen), 2);
      EXPECT_EQ(decode_image(bytes_of(png), "a"), seen);
      EXPECT_EQ(decode_image(bytes_of(webp), "a"), seen);
      for (const std::string& file : {jpeg, png, webp}) {
        EXPECT_EQ(image_size(bytes_of(file), "a"), (ImageSize{seen.width, seen.height}));
      }
    }
}

TEST(Exif, WhereItIsDamagedThePictureStaysAsItIsStored) {
  const Image image = gradient(24, 16);
  const std::string jpeg = encode_jpeg(image, 90), exif = exif_of_orientation(6);
  const auto read = [&](const std::string& damaged) {
    const std::string file = jpeg_with_exif(jpeg, damaged);
    EXPECT_EQ(image_size(bytes_of(file), "a").width, decode_image(bytes_of(file), "a").width);
    return orientation(bytes_of(file));
  };
  ASSERT_EQ(read(exif), 6);
  constexpr std::size_t kBehindOrientation = 32;
  for (std::size_t size = 0; size < kBehindOrientation; ++size)
    EXPECT_EQ(read(exif.substr(0, size)), 1) << size;
  for (const int other : {0, 9, 255, 65535}) EXPECT_EQ(read(exif_of_orientation(other)), 1);
  const auto with = [&](std::size_t at, std::string_view bytes) {
    return std::string(exif).replace(at, bytes.size(), bytes);
  };
  EXPECT_EQ(read(with(0, "IM")), 1);
  EXPECT_EQ(read(with(4, "\xFF\xFF\xFF\xFF")), 1);                   // the list is elsewhere
  EXPECT_EQ(read(with(8, {"\0\0", 2})), 1);                          // of no entries
  EXPECT_EQ(read(with(8, "\xFF\xFF")), 6);                           // of more than there are
  EXPECT_EQ(read(with(10, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF")), 6);  // another entry
}

TEST(Exif, IsLookedForInSegmentsAndNotInPixels) {
  const std::string exif = exif_of_orientation(6), jpeg = encode_jpeg(gradient(24, 16), 90);
  EXPECT_EQ(orientation(bytes_of(jpeg)), 1);
  EXPECT_EQ(orientation(bytes_of(jpeg + jpeg_with_exif(jpeg, exif).substr(2))), 1);
  // Behind another segment of the same kind, and a marker that is filled up.
  const std::string xmp("\xFF\xE1\0\x08http:/\xFF", 11);
  EXPECT_EQ(orientation(bytes_of(jpeg_with_exif(jpeg, exif).insert(2, xmp))), 6);
}

TEST(Exif, NoPrefixOfAFileIsReadPastItsEnd) {
  const Image image = gradient(8, 4);
  const std::string exif = exif_of_orientation(8);
  for (const std::string& file :
       {jpeg_with_exif(encode_jpeg(image, 90), exif), png_with_exif(encode_png(image), exif),
        webp_with_exif(encode_webp(std::vector{image}, 1, true), 8, 4, exif)})
    for (std::size_t size = 0; size <= file.size(); ++size) {
      const std::vector<char> prefix(file.begin(),
                                     file.begin() + static_cast<std::ptrdiff_t>(size));
      const int found = orientation(bytes_of({prefix.data(), prefix.size()}));
      EXPECT_TRUE(found == 8 || found == 1) << size;
    }
}

}  // namespace
}  // namespace trireme::media::exif_test
