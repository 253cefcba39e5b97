// How much memory is left to take.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/base/fs.h"

namespace trireme {

// Bytes that this process and its children may still take without swapping. They are the machine's available memory
// (MemAvailable), within the limits of this process's control groups (version 1 and 2) from its own up. Their page
// cache counts as free, because the kernel can drop it. Nothing where the kernel does not say. `root` replaces / in
// tests.
std::optional<std::int64_t> free_memory(const Path& root = "/");

// The least limit of this process's control groups, in bytes. Nothing where none limits it.
std::optional<std::int64_t> memory_limit(const Path& root = "/");

}  // namespace trireme
