#include "trireme/base/hash.h"

#include <fmt/core.h>
#include <xxhash.h>

namespace trireme {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace trireme
