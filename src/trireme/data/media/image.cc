#include "trireme/data/media/image.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/media/codecs.h"
#include "trireme/data/media/exif.h"

namespace trireme::media {
namespace {

enum class Format { kJpeg, kPng, kWebp };

bool is_jpeg(ByteSpan bytes) {
  const std::uint8_t* at = octets(bytes);
  return bytes.size() >= 3 && at[0] == 0xFF && at[1] == 0xD8 && at[2] == 0xFF;
}

bool is_png(ByteSpan bytes) {
  const std::uint8_t* at = octets(bytes);
  return bytes.size() >= 4 && at[0] == 0x89 && at[1] == 'P' && at[2] == 'N' && at[3] == 'G';
}

Format format_of(ByteSpan bytes, const std::string& what) {
  if (bytes.empty()) fail(ErrorKind::kData, "{}: is empty, which is not a picture", what);
  if (is_jpeg(bytes)) return Format::kJpeg;
  if (is_png(bytes)) return Format::kPng;
  if (is_webp(bytes)) return Format::kWebp;
  fail(ErrorKind::kData, "{}: begins like neither JPEG, PNG nor WebP", what);
}

ImageSize stored_size(ByteSpan bytes, const std::string& what) {
  switch (format_of(bytes, what)) {
    case Format::kJpeg: return jpeg_size(bytes, what);
    case Format::kPng: return png_size(bytes, what);
    case Format::kWebp: break;
  }
  return webp_size(bytes, what);
}

Image stored_image(ByteSpan bytes, const std::string& what) {
  switch (format_of(bytes, what)) {
    case Format::kJpeg: return decode_jpeg(bytes, what);
    case Format::kPng: return decode_png(bytes, what);
    case Format::kWebp: break;
  }
  return decode_webp(bytes, what);
}

// A stored picture as it is looked at.
Image turned(Image stored, int orientation) {
  if (orientation == 1) return stored;
  // Which sides of what is looked at the first stored row and column are.
  const bool row_last =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool column_last = orientation == 2 || orientation == 3 || orientation >= 7;
  const bool swapped = lies_on_its_side(orientation);
  Image seen(swapped ? stored.height : stored.width, swapped ? stored.width : stored.height);
  for (int row = 0; row < stored.height; ++row)
    for (int column = 0; column < stored.width; ++column) {
      int y = row_last ? stored.height - 1 - row : row;
      int x = column_last ? stored.width - 1 - column : column;
      if (swapped) std::swap(x, y);
      std::copy_n(stored.pixel(column, row), 3, seen.pixel(x, y));
    }
  return seen;
}

}  // namespace

bool is_still(ByteSpan bytes) { return is_jpeg(bytes) || is_png(bytes); }

void check_size(std::int64_t width, std::int64_t height, const std::string& what) {
  constexpr std::int64_t kMaxSide = std::int64_t{1} << 30;
  if (width <= 0 || height <= 0)
    fail(ErrorKind::kData, "{}: a picture of {} x {} pixels", what, width, height);
  if (width > kMaxSide || height > kMaxSide || width * height > kMaxPixels)
    fail(ErrorKind::kData, "{}: {} x {} pixels are more than {} million; shrink it first", what,
         width, height, kMaxPixels >> 20);
}

Image over_black(const std::uint8_t* rgba, int width, int height) {
  Image image(width, height);
  const std::size_t pixels = image.rgb.size() / 3;
  for (std::size_t i = 0; i < pixels; ++i)
    for (std::size_t channel = 0; channel < 3; ++channel)
      image.rgb[3 * i + channel] =
          static_cast<std::uint8_t>((rgba[4 * i + channel] * rgba[4 * i + 3] + 127) / 255);
  return image;
}

ImageSize image_size(ByteSpan bytes, const std::string& what) {
  const ImageSize stored = stored_size(bytes, what);
  return lies_on_its_side(orientation(bytes)) ? ImageSize{stored.height, stored.width} : stored;
}

Image decode_image(ByteSpan bytes, const std::string& what) {
  return turned(stored_image(bytes, what), orientation(bytes));
}

}  // namespace trireme::media
