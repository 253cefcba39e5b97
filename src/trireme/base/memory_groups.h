// The control groups that limit this process's memory, of version 1 and 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme {

struct MemoryGroup {
  Path path;
  int version = 2;
};

// From the process's own group up. A container may see its own group as the mounted one; then groups above it are
// missing. `root` replaces / in tests.
std::vector<MemoryGroup> memory_groups(const Path& root = "/");

// Number of processes that the kernel has killed so far for lack of memory, in this process's control group, or on the
// machine if the group counts none. Nothing where the kernel does not say.
std::optional<std::int64_t> memory_kills(const Path& root = "/");

// The number in the first line "WORD NUMBER" of a file.
std::optional<std::int64_t> number_after(const Path& file, const std::string& word);

}  // namespace trireme
