#include "trireme/base/free_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace trireme {
namespace {

using Count = std::optional<std::int64_t>;

// Behind the word in a file of "WORD NUMBER" lines.
Count number_behind(const Path& path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(wanted + " ")) return std::stoll(line.substr(wanted.size()));
  return std::nullopt;
}

// Nothing for "max".
Count number_in(const Path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? Count(number) : std::nullopt;
}

Count least(Count a, Count b) { return a && b ? std::min(*a, *b) : a ? a : b; }

// What the files of one version are called.
struct Version {
  const char* limit;
  const char* used;
  std::string cached;  // before "inactive_file" and "active_file" in memory.stat
};

Count group_free(const Path& group, const Version& version) {
  const Count limit = number_in(group / version.limit), used = number_in(group / version.used);
  if (!limit || !used) return std::nullopt;
  std::int64_t kept = *used;
  for (const char* list : {"inactive_file", "active_file"})
    kept -= number_behind(group / "memory.stat", version.cached + list).value_or(0);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, kept));
}

// Of a group and those above it. A container may see its own as the mounted one: what is not there is passed over.
Count groups_free(const Path& mounted, const std::string& group, const Version& version) {
  Count free;
  for (Path at = Path(group).relative_path();; at = at.parent_path()) {
    free = least(free, group_free(mounted / at, version));
    if (at.empty()) return free;
  }
}

}  // namespace

std::optional<std::int64_t> free_memory(const Path& root) {
  Count free = number_behind(root / "proc/meminfo", "MemAvailable:");
  if (free) *free *= 1024;
  const Path groups = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");  // NUMBER:CONTROLLERS:GROUP
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first, second - first + 1);
    std::string group = line.substr(second + 1);
    if (controllers == "::")
      free = least(free, groups_free(groups, group, {"memory.max", "memory.current", ""}));
    else if (controllers == ":memory:")
      free = least(free, groups_free(groups / "memory", group,
                                     {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}));
  }
  return free;
}

}  // namespace trireme
