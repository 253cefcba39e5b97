#include "trireme/data/media/image.h"

#include <gmock/gmock.h>

#include "tests/data/media/pictures.h"
#include "trireme/base/error.h"
#include "trireme/data/media/video.h"

namespace trireme::media::image_test {
namespace {

using testing::HasSubstr;

std::string refusal_of_picture(std::string_view bytes) {
  try {
    decode_image(bytes_of(bytes), "a.jpg");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "taken";
}

TEST(Image, PngComesBackAsItWas) {
  const Image image = gradient(31, 17);
  EXPECT_EQ(decode_image(bytes_of(encode_png(image)), "a"), image);
}

TEST(Image, JpegComesBackNearly) {
  const Image image = gradient(64, 48);
  const std::string bytes = encode_jpeg(image, 95);
  EXPECT_LT(mean_difference(decode_image(bytes_of(bytes), "a"), image), 1.5);
  EXPECT_EQ(encode_jpeg(image, 95), bytes);
  EXPECT_LT(encode_jpeg(image, 20).size(), bytes.size());
}

TEST(Image, SizeIsKnownWithoutDecoding) {
  const Image image = gradient(40, 24);
  const ImageSize size{40, 24};
  EXPECT_EQ(image_size(bytes_of(encode_png(image)), "a"), size);
  EXPECT_EQ(image_size(bytes_of(encode_jpeg(image, 90)), "a"), size);
  EXPECT_EQ(image_size(bytes_of(encode_webp(std::vector{image}, 5, true)), "a"), size);
}

TEST(Image, OfAnAnimationTheFirstFrameIsTaken) {
  const std::vector<Image> frames{gradient(32, 16, 3), gradient(32, 16, 9)};
  EXPECT_EQ(decode_image(bytes_of(encode_webp(frames, 5, true)), "a"), frames[0]);
}

TEST(Image, TruncatedFilesAreRefusedByName) {
  for (const std::string& whole : {encode_jpeg(gradient(64, 48), 90), encode_png(gradient(64, 48)),
                                   encode_webp(std::vector{gradient(64, 48)}, 5, false)})
    for (const std::size_t size : {whole.size() * 3 / 4, whole.size() / 2, std::size_t{12}})
      EXPECT_THAT(refusal_of_picture(whole.substr(0, size)), HasSubstr("a.jpg: ")) << size;
}

TEST(Image, CorruptFilesAreRefused) {
  std::string png = encode_png(gradient(64, 48));
  png[png.size() / 2] ^= 0x55;
  EXPECT_THAT(refusal_of_picture(png), HasSubstr("corrupt"));
  std::string jpeg = encode_jpeg(gradient(64, 48), 90);
  for (std::size_t i = jpeg.size() / 2; i < jpeg.size() - 2; ++i) jpeg[i] = '\xFF';
  EXPECT_THAT(refusal_of_picture(jpeg), HasSubstr("corrupt"));
  EXPECT_THAT(refusal_of_picture("GIF89a..."), HasSubstr("neither JPEG, PNG nor WebP"));
  EXPECT_THAT(refusal_of_picture(""), HasSubstr("empty"));
}

TEST(Image, AbsurdSizesAreRefusedBeforeMemoryIsTaken) {
  std::string jpeg = encode_jpeg(gradient(16, 16), 90);
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");  // 65500 x 65500
  EXPECT_THAT(refusal_of_picture(jpeg), HasSubstr("65500 x 65500 pixels are more than 64 million"));
}

TEST(Image, AlphaIsLaidOverBlack) {
  // One pixel of red at half strength, made by hand: 8-bit RGBA, a stored deflate block.
  const unsigned char png[] = {
      0x89, 'P',  'N',  'G',  13,   10,   26,  10,  0,    0,    0,    13,   'I',  'H',
      'D',  'R',  0,    0,    0,    1,    0,   0,   0,    1,    8,    6,    0,    0,
      0,    0x1F, 0x15, 0xC4, 0x89, 0,    0,   0,   13,   'I',  'D',  'A',  'T',  0x78,
      0x9C, 0x63, 0xF8, 0xCF, 0xC0, 0xD0, 0,   0,   0x04, 0x81, 0x01, 0x80, 0x2C, 0x55,
      0xCE, 0xB0, 0,    0,    0,    0,    'I', 'E', 'N',  'D',  0xAE, 0x42, 0x60, 0x82};
  const Image image = decode_image(bytes_of({reinterpret_cast<const char*>(png), sizeof png}), "a");
  ASSERT_EQ(image.width, 1);
  EXPECT_EQ(image.rgb, (std::vector<std::uint8_t>{128, 0, 0}));
}

TEST(Image, PhotographsAreRead) {
  TRIREME_NEEDS_REAL_FILE(rocket, "photos/rocket.jpg");
  const MappedFile file(rocket);
  const Image image = decode_image(file.bytes(), "rocket.jpg");
  EXPECT_EQ(image_size(file.bytes(), "rocket.jpg"), (ImageSize{image.width, image.height}));
  EXPECT_EQ(image.width, 640);
  EXPECT_EQ(image.height, 427);
  const MappedFile cat(rocket.parent_path() / "chelsea.png");
  EXPECT_EQ(decode_image(cat.bytes(), "chelsea.png").width, 451);
}

}  // namespace
}  // namespace trireme::media::image_test
