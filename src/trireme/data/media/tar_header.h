// The used fields of a tar header, for reading and writing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::media {

inline constexpr std::size_t kTarBlock = 512;  // of headers, and what bodies are filled up to

struct HeaderField {
  std::size_t at;
  std::size_t size;
};
inline constexpr HeaderField kName{0, 100}, kMode{100, 8}, kOwner{108, 8}, kGroup{116, 8},
    kSize{124, 12}, kTime{136, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 8},
    kPrefix{345, 155};

// The sum of a header's bytes, those of the sum itself taken for spaces.
std::uint64_t header_checksum(const char* header);

}  // namespace trireme::media
