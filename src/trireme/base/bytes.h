// Byte sizes as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct Bytes {
  std::int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

// "20GiB", "512MiB", "1.5 TiB", "1e9", "20GB", "4096B": powers of 1024 with an i, of 1000 without. Fractions of a
// byte are dropped. Nothing for other text, negative numbers and what 2^53 bytes cannot hold.
std::optional<Bytes> parse_bytes(std::string_view text);

// The shortest that parse_bytes reads as exactly this: "20GiB", "1000001".
std::string exact_text(Bytes bytes);

}  // namespace trireme
