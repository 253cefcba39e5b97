// How much memory is left to take.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/base/fs.h"

namespace trireme {

// Bytes that this process and those it starts may still take without swapping: what the machine has available
// (MemAvailable), within the limits of this process's control groups, of version 1 and 2, from its own up; their page
// cache, which the kernel can drop, is free. Nothing where the kernel does not say. `root` stands for / in tests.
std::optional<std::int64_t> free_memory(const Path& root = "/");

// The least limit of this process's control groups, in bytes. Nothing where none limits it.
std::optional<std::int64_t> memory_limit(const Path& root = "/");

}  // namespace trireme
