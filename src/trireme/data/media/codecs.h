// One pair of functions a format, called by decode_image.
#pragma once

#include "trireme/data/media/image.h"

namespace trireme::media {

using ByteSpan = std::span<const std::byte>;

inline const std::uint8_t* octets(ByteSpan bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

// Refuses what is empty or beyond kMaxPixels.
void check_size(std::int64_t width, std::int64_t height, const std::string& what);

// RGBA over black.
Image over_black(const std::uint8_t* rgba, int width, int height);

ImageSize jpeg_size(ByteSpan bytes, const std::string& what);
Image decode_jpeg(ByteSpan bytes, const std::string& what);
ImageSize png_size(ByteSpan bytes, const std::string& what);
Image decode_png(ByteSpan bytes, const std::string& what);
bool is_still(ByteSpan bytes);  // JPEG or PNG
bool is_webp(ByteSpan bytes);
ImageSize webp_size(ByteSpan bytes, const std::string& what);
Image decode_webp(ByteSpan bytes, const std::string& what);

}  // namespace trireme::media
