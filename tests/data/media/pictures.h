// Pictures and bytes that several tests of this component begin with.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tests/harness/needs.h"
#include "trireme/base/fs.h"
#include "trireme/data/media/image.h"

namespace trireme::media {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Smooth, with another slope in each channel; `phase` moves it.
inline Image gradient(int width, int height, int phase = 0) {
  Image image(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      std::uint8_t* pixel = image.pixel(x, y);
      pixel[0] = static_cast<std::uint8_t>(40 + 160 * x / width);
      pixel[1] = static_cast<std::uint8_t>(40 + 160 * y / height);
      pixel[2] = static_cast<std::uint8_t>((10 * phase) % 200);
    }
  return image;
}

inline double mean_difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height) return 1e9;
  double sum = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
  return sum / static_cast<double>(a.rgb.size());
}

// Photographs, clips and a trajectory that some machines have beside the repository.
inline Path real_file(const std::string& name) {
  const Path file = Path(TRIREME_SOURCE_DIR).parent_path() / "shared" / "data" / name;
  return std::filesystem::exists(file) ? file : Path();
}

#define TRIREME_NEEDS_REAL_FILE(path, name)                                               \
  const Path path = real_file(name);                                                      \
  TRIREME_NEEDS("real files", path.empty() ? std::string(name) +                          \
                                                 " is not in ../shared/data, beside the " \
                                                 "repository"                             \
                                           : std::string())

}  // namespace trireme::media
