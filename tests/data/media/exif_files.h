// Pictures whose EXIF says how the camera was held.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::media {

enum class ByteOrder { kBig, kLittle };

inline std::string number_of(std::uint64_t value, int size, ByteOrder order) {
  std::string bytes;
  for (int i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> 8 * (order == ByteOrder::kBig ? size - 1 - i : i));
  return bytes;
}

// A list of two entries: a date that is elsewhere, and the orientation.
inline std::string exif_of_orientation(int orientation, ByteOrder order = ByteOrder::kBig) {
  const auto number = [&](std::uint64_t value, int size) { return number_of(value, size, order); };
  return (order == ByteOrder::kBig ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2) +
         number(0x0100, 2) + number(2, 2) + number(20, 4) + number(38, 4) +  //
         number(0x0112, 2) + number(3, 2) + number(1, 4) +
         number(static_cast<std::uint64_t>(orientation), 2) + number(0, 2) + number(0, 4);
}

inline std::string jpeg_with_exif(std::string jpeg, const std::string& exif) {
  const std::string body = std::string("Exif\0\0", 6) + exif;
  return jpeg.insert(2, "\xFF\xE1" + number_of(body.size() + 2, 2, ByteOrder::kBig) + body);
}

inline std::string png_with_exif(std::string png, const std::string& exif) {
  const std::string body = "eXIf" + exif;
  std::uint32_t sum = 0xFFFFFFFF;  // CRC-32
  for (const char byte : body) {
    sum ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
  }
  constexpr std::size_t kBehindHeader = 33;
  return png.insert(kBehindHeader, number_of(exif.size(), 4, ByteOrder::kBig) + body +
                                       number_of(~sum, 4, ByteOrder::kBig));
}

// Of a lossless picture of one frame.
inline std::string webp_with_exif(const std::string& webp, int width, int height,
                                  const std::string& exif) {
  const auto number = [](std::size_t value, int size) {
    return number_of(value, size, ByteOrder::kLittle);
  };
  constexpr std::uint64_t kHasExif = 8;
  const std::string body = "WEBPVP8X" + number(10, 4) + number(kHasExif, 4) +
                           number(static_cast<std::size_t>(width - 1), 3) +
                           number(static_cast<std::size_t>(height - 1), 3) +
                           webp.substr(webp.find("VP8L")) + "EXIF" + number(exif.size(), 4) + exif;
  return "RIFF" + number(body.size(), 4) + body;
}

}  // namespace trireme::media
