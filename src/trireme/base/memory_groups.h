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

// From the process's own group up. A container may see its own as the mounted one, so that some may not be there. `root`
// stands for / in tests.
std::vector<MemoryGroup> memory_groups(const Path& root = "/");

// How many processes the kernel has killed for lack of memory, up to now: of this process's control group, or of the machine
// where the group counts none. Nothing where the kernel does not say.
std::optional<std::int64_t> memory_kills(const Path& root = "/");

// The number in the first line "WORD NUMBER" of a file.
std::optional<std::int64_t> number_after(const Path& file, const std::string& word);

}  // namespace trireme
