// Options of the programs of bench/: whole numbers by name.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme::bench {

struct NumberOption {
  std::string_view name;  // "--seed"
  std::optional<std::uint64_t>* value;
};

// Reads `--name N` pairs. Throws Error{kUsage} with `needed`, the options that there are.
inline void read_numbers(int argc, char** argv, std::initializer_list<NumberOption> options,
                         std::string_view needed) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i], text = i + 1 < argc ? argv[i + 1] : "";
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
      fail(ErrorKind::kUsage, "{} {}: needs a whole number, from 0", name, text);
    bool known = false;
    for (const NumberOption& option : options)
      if (option.name == name) {
        *option.value = value;
        known = true;
      }
    if (!known) fail(ErrorKind::kUsage, "{}: no such option; needs {}", name, needed);
  }
}

// The seed of one of many draws; neighbouring seeds share none.
inline std::uint64_t seed_of(std::uint64_t seed, std::uint64_t number) {
  return seed * 0x9e3779b97f4a7c15 + number;
}

}  // namespace trireme::bench
