#include "trireme/base/free_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "trireme/base/memory_groups.h"

namespace trireme {
namespace {

using Count = std::optional<std::int64_t>;

// Nothing for "max".
Count number_in(const Path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? Count(number) : std::nullopt;
}

Count least(Count a, Count b) { return a && b ? std::min(*a, *b) : a ? a : b; }

// Names of the files of one version.
struct Version {
  const char* limit;
  const char* used;
  std::string cached;  // before "inactive_file" and "active_file" in memory.stat
};

Version version_of(const MemoryGroup& group) {
  return group.version == 2 ? Version{"memory.max", "memory.current", ""}
                            : Version{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
}

Count group_free(const MemoryGroup& group) {
  const Version version = version_of(group);
  const Count limit = number_in(group.path / version.limit),
              used = number_in(group.path / version.used);
  if (!limit || !used) return std::nullopt;
  std::int64_t kept = *used;
  for (const char* list : {"inactive_file", "active_file"})
    kept -= number_after(group.path / "memory.stat", version.cached + list).value_or(0);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, kept));
}

}  // namespace

std::optional<std::int64_t> free_memory(const Path& root) {
  Count free = number_after(root / "proc/meminfo", "MemAvailable:");
  if (free) *free *= 1024;
  for (const MemoryGroup& group : memory_groups(root)) free = least(free, group_free(group));
  return free;
}

std::optional<std::int64_t> memory_limit(const Path& root) {
  constexpr std::int64_t kNone = std::int64_t{1} << 62;  // version 1 writes 2^63 less a page
  Count least_limit;
  for (const MemoryGroup& group : memory_groups(root))
    least_limit = least(least_limit, number_in(group.path / version_of(group).limit));
  return least_limit && *least_limit < kNone ? least_limit : std::nullopt;
}

}  // namespace trireme
