// PNG through libpng's simplified interface.
#include <png.h>

#include "trireme/base/error.h"
#include "trireme/data/media/codecs.h"

namespace trireme::media {
namespace {

class PngReader {
 public:
  PngReader(ByteSpan bytes, const std::string& what) : what_(what) {
    image_.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size())) refuse();
    check_size(image_.width, image_.height, what);
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // as others read files that do not say
  }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ImageSize size() const {
    return {static_cast<int>(image_.width), static_cast<int>(image_.height)};
  }

  Image read() {
    const auto [width, height] = size();
    if ((image_.format & PNG_FORMAT_FLAG_ALPHA) == 0) {
      image_.format = PNG_FORMAT_RGB;
      Image image(width, height);
      finish(image.rgb.data());
      return image;
    }
    image_.format = PNG_FORMAT_RGBA;
    std::vector<std::uint8_t> rgba(PNG_IMAGE_SIZE(image_));
    finish(rgba.data());
    return over_black(rgba.data(), width, height);
  }

 private:
  void finish(std::uint8_t* pixels) {
    if (!png_image_finish_read(&image_, nullptr, pixels, 0, nullptr)) refuse();
  }
  [[noreturn]] void refuse() const {
    fail(ErrorKind::kData, "{}: a PNG that is corrupt or truncated: {}", what_, image_.message);
  }

  const std::string& what_;
  png_image image_{};
};

}  // namespace

ImageSize png_size(ByteSpan bytes, const std::string& what) {
  return PngReader(bytes, what).size();
}

Image decode_png(ByteSpan bytes, const std::string& what) { return PngReader(bytes, what).read(); }

std::string encode_png(const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
  png_alloc_size_t size = bytes.size();
  if (!png_image_write_to_memory(&header, bytes.data(), &size, 0, image.rgb.data(), 0, nullptr))
    fail(ErrorKind::kUsage, "a picture of {} x {} pixels as PNG: {}", image.width, image.height,
         header.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace trireme::media
