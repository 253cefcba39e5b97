#include "trireme/data/media/exif.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "trireme/data/media/codecs.h"

namespace trireme::media {
namespace {

enum class Ends { kBig, kLittle };

// Bytes that may end anywhere: what is past the end is 0 or empty.
class Foreign {
 public:
  explicit Foreign(ByteSpan bytes) : bytes_(bytes) {}

  std::uint64_t number(std::size_t at, std::size_t size, Ends ends) const {
    if (!holds(at, size)) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | octets(bytes_)[ends == Ends::kBig ? at + i : at + size - 1 - i];
    return value;
  }
  bool says(std::size_t at, std::string_view text) const {
    return holds(at, text.size()) && std::memcmp(bytes_.data() + at, text.data(), text.size()) == 0;
  }
  bool holds(std::size_t at, std::size_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  Foreign part(std::size_t at, std::size_t size) const {
    return Foreign(holds(at, size) ? bytes_.subspan(at, size) : ByteSpan());
  }

 private:
  ByteSpan bytes_;
};

constexpr std::string_view kExif("Exif\0\0", 6);

// Segments before the pixels: a marker, and a length that counts itself.
Foreign exif_of_jpeg(const Foreign& file) {
  constexpr std::uint64_t kApp1 = 0xE1, kScan = 0xDA;
  for (std::size_t at = 2; file.holds(at, 4) && file.number(at, 1, Ends::kBig) == 0xFF;) {
    const std::uint64_t marker = file.number(at + 1, 1, Ends::kBig);
    if (marker == 0xFF) {  // fills up
      ++at;
      continue;
    }
    const std::uint64_t length = file.number(at + 2, 2, Ends::kBig);
    if (marker == kScan || length < 2) break;
    if (marker == kApp1 && file.says(at + 4, kExif)) return file.part(at + 4, length - 2);
    at += 2 + length;
  }
  return Foreign({});
}

// Chunks of a length, a name, a body and a checksum.
Foreign exif_of_png(const Foreign& file) {
  for (std::size_t at = 8; file.holds(at, 12);) {
    const std::uint64_t length = file.number(at, 4, Ends::kBig);
    if (file.says(at + 4, "eXIf")) return file.part(at + 8, length);
    at += 12 + length;
  }
  return Foreign({});
}

// Chunks of a name, a length and a body of even length.
Foreign exif_of_webp(const Foreign& file) {
  for (std::size_t at = 12; file.holds(at, 8);) {
    const std::uint64_t length = file.number(at + 4, 4, Ends::kLittle);
    if (file.says(at, "EXIF")) return file.part(at + 8, length);
    at += 8 + length + length % 2;
  }
  return Foreign({});
}

Foreign exif_of(ByteSpan bytes) {
  const Foreign file(bytes);
  if (file.says(0, "\xFF\xD8")) return exif_of_jpeg(file);
  if (file.says(0, "\x89PNG")) return exif_of_png(file);
  return is_webp(bytes) ? exif_of_webp(file) : Foreign({});
}

}  // namespace

int orientation(ByteSpan file) {
  constexpr std::uint64_t kTag = 0x0112, kShort = 3;
  const Foreign exif = exif_of(file);
  const std::size_t begin = exif.says(0, kExif) ? kExif.size() : 0;
  const bool little = exif.says(begin, {"II*\0", 4}), big = exif.says(begin, {"MM\0*", 4});
  if (!little && !big) return 1;
  const Ends ends = little ? Ends::kLittle : Ends::kBig;
  const std::size_t list = begin + exif.number(begin + 4, 4, ends);
  const std::uint64_t entries = exif.number(list, 2, ends);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::size_t entry = list + 2 + 12 * i;
    if (exif.number(entry, 2, ends) != kTag) continue;
    const std::uint64_t value =
        exif.number(entry + 8, exif.number(entry + 2, 2, ends) == kShort ? 2 : 4, ends);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace trireme::media
