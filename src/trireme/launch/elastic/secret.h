// The secret that agents and ranks of a run share, and what is computed with it.
#pragma once

#include <string>
#include <string_view>

#include "trireme/base/fs.h"

namespace trireme::elastic {

inline constexpr std::size_t kMacBytes = 32;

// HMAC-SHA256 (RFC 2104).
std::string hmac(std::string_view key, std::string_view text);

// In a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b);

// Unpredictable bytes.
std::string random_bytes(std::size_t count);

// Token from a file that only its owner may read (mode 0600 or 0400) and that holds at least 16 bytes, without white
// space at its end. Throws Error{kUsage}.
std::string read_token(const Path& file);

}  // namespace trireme::elastic
