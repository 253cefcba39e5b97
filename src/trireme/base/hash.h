// Keyed hashing: content digests and counter-based keys for random draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// XXH3-64 of bytes.
std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

// Folds `value` into a key; key(seed).mix(step).mix(mb)... names one random stream. SplitMix64's
// finaliser (Steele, Lea & Flood 2014) after an odd multiply-add.
constexpr std::uint64_t mix(std::uint64_t key, std::uint64_t value) {
  std::uint64_t z = key * 0x9E3779B97F4A7C15ull + value + 0xD1B54A32D192ED03ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// 16 lower-case hex digits.
std::string hex64(std::uint64_t value);

}  // namespace trireme
