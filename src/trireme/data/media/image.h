// Pictures: bytes of a file to interleaved RGB and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::media {

// Interleaved 8-bit RGB, rows from the top: rgb[3 * (y * width + x) + channel].
struct Image {
  int width = 0;   // pixels
  int height = 0;  // pixels
  std::vector<std::uint8_t> rgb{};

  Image() = default;
  // Black.
  Image(int width, int height)
      : width(width),
        height(height),
        rgb(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}
  const std::uint8_t* pixel(int x, int y) const { return rgb.data() + 3 * index(x, y); }
  std::uint8_t* pixel(int x, int y) { return rgb.data() + 3 * index(x, y); }
  bool operator==(const Image&) const = default;

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x);
  }
};

struct ImageSize {
  int width = 0;
  int height = 0;
  bool operator==(const ImageSize&) const = default;
};

// More pixels than this are refused before memory is taken for them.
inline constexpr std::int64_t kMaxPixels = std::int64_t{64} << 20;

// Width and height as headers say, without decoding. Throws as decode_image.
ImageSize image_size(std::span<const std::byte> bytes, const std::string& what);

// Decodes JPEG, PNG or WebP, distinguished by their first bytes; of an animated WebP the first frame. Grey, palette and
// CMYK become RGB, 16 bits become 8, alpha is blended over black, and the picture is rotated as EXIF says. Throws
// Error{kData} beginning with `what` for another format, corrupt or truncated bytes, and more than kMaxPixels.
Image decode_image(std::span<const std::byte> bytes, const std::string& what);

// `quality` 1 to 100, without chroma subsampling. Equal pictures give equal bytes under one version of the library.
std::string encode_jpeg(const Image& image, int quality);
std::string encode_png(const Image& image);

}  // namespace trireme::media
