#include "trireme/base/memory_groups.h"

#include <fstream>

namespace trireme {

std::vector<MemoryGroup> memory_groups(const Path& root) {
  std::vector<MemoryGroup> groups;
  std::ifstream file(root / "proc/self/cgroup");  // NUMBER:CONTROLLERS:GROUP
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first, second - first + 1);
    if (controllers != "::" && controllers != ":memory:") continue;
    const int version = controllers == "::" ? 2 : 1;
    const Path mounted = root / (version == 2 ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    for (Path at = Path(line.substr(second + 1)).relative_path();; at = at.parent_path()) {
      groups.push_back({mounted / at, version});
      if (at.empty()) break;
    }
  }
  return groups;
}

std::optional<std::int64_t> memory_kills(const Path& root) {
  for (const MemoryGroup& group : memory_groups(root))
    if (const auto kills = number_after(
            group.path / (group.version == 2 ? "memory.events" : "memory.oom_control"), "oom_kill"))
      return kills;
  return number_after(root / "proc/vmstat", "oom_kill");
}

std::optional<std::int64_t> number_after(const Path& file, const std::string& word) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(word + " ")) return std::stoll(line.substr(word.size()));
  return std::nullopt;
}

}  // namespace trireme
